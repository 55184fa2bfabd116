#include "server/api/openapi.h"

#include <yaml-cpp/yaml.h>

#include <charconv>

#include "nmt/base/json.h"
#include "server/api/openapi_text.h"

namespace babelring::api {
namespace {

json::value scalar(const YAML::Node& node) {
  const std::string& text = node.Scalar();
  if (node.Tag() == "!") return json::value(text);  // quoted: a text whatever it looks like
  if (text == "true" || text == "false") return text == "true";
  if (text == "null" || text == "~") return nullptr;
  std::int64_t integer = 0;
  const char* end = text.data() + text.size();
  if (const auto parsed = std::from_chars(text.data(), end, integer); parsed.ptr == end && !text.empty())
    return integer;
  double real = 0;
  if (const auto parsed = std::from_chars(text.data(), end, real); parsed.ptr == end && !text.empty()) return real;
  return json::value(text);
}

json::value convert(const YAML::Node& node) {
  if (node.IsMap()) {
    json::object object;
    for (const auto& entry : node) object[entry.first.Scalar()] = convert(entry.second);
    return object;
  }
  if (node.IsSequence()) {
    json::array array;
    for (const auto& entry : node) array.push_back(convert(entry));
    return array;
  }
  return node.IsScalar() ? scalar(node) : json::value(nullptr);
}

}  // namespace

std::string openapi_json() {
  try {
    return to_text(convert(YAML::Load(std::string(openapi_text))));
  } catch (const YAML::Exception& error) {
    fail("openapi.yaml: {}", error.what());
  }
}

}  // namespace babelring::api
