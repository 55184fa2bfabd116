#include "server/api/openapi.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>

#include "nmt/base/json.h"
#include "server/api/openapi_text.h"
#include "server/http/field_text.h"

namespace babelring::api {
namespace {

json::value scalar(const YAML::Node& node) {
  const std::string& text = node.Scalar();
  if (node.Tag() == "!") return json::value(text);  // quoted: a string whatever it looks like
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

const json::value& contract_document() {
  static const json::value document = [] {
    try {
      return convert(YAML::Load(std::string(openapi_text)));
    } catch (const YAML::Exception& error) {
      fail("openapi.yaml: {}", error.what());
    }
  }();
  return document;
}

const json::object* member_object(const json::object* object, std::string_view name) {
  const json::value* member = object == nullptr ? nullptr : object->if_contains(name);
  return member == nullptr ? nullptr : member->if_object();
}

}  // namespace

std::string openapi_json() {
  return to_text(contract_document());
}

std::vector<std::string> answer_types(std::string_view method, const std::string& path) {
  std::vector<std::string> types;
  const json::object* paths = member_object(&contract_document().as_object(), "paths");
  const json::object* answers =
      member_object(member_object(member_object(paths, path), http::lower(method)), "responses");
  if (answers == nullptr) return types;
  for (const auto& [status, answer] : *answers) {
    const json::object* content = status.starts_with('2') ? member_object(answer.if_object(), "content") : nullptr;
    if (content == nullptr) continue;
    for (const auto& [type, schema] : *content) {
      std::string name(type);
      if (std::find(types.begin(), types.end(), name) == types.end()) types.push_back(std::move(name));
    }
  }
  return types;
}

}  // namespace babelring::api
