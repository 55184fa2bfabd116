#include "server/api/openapi.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/ascii.h"
#include "base/failure.h"
#include "base/json.h"
#include "server/api/openapi_problems.h"
#include "server/api/openapi_text.h"
#include "server/http/field_text.h"

namespace babelring::api {
namespace {

json::value scalar(const YAML::Node& node) {
  const std::string& text = node.Scalar();
  if (node.Tag() == "!") return json::value(text);  // a quoted scalar is always a string
  if (text == "true" || text == "false") return text == "true";
  if (text == "null" || text == "~") return nullptr;
  std::int64_t integer = 0;
  const char* end = text.data() + text.size();
  if (const auto parsed = std::from_chars(text.data(), end, integer); parsed.ptr == end && parsed.ec == std::errc())
    return integer;
  double real = 0;
  if (const auto parsed = std::from_chars(text.data(), end, real); parsed.ptr == end && !text.empty()) {
    // JSON would show null. The word nan must be quoted.
    const bool finite = parsed.ec == std::errc() && std::isfinite(real);
    if (!finite) fail("openapi.yaml, line {}: {} is not finite: quote it", node.Mark().line + 1, text);
    return real;
  }
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

const json::object* member_object(const json::object* object, std::string_view name) {
  const json::value* member = object == nullptr ? nullptr : object->if_contains(name);
  return member == nullptr ? nullptr : member->if_object();
}

}  // namespace

json::value parse_contract(std::string_view yaml) {
  json::value document;
  try {
    document = convert(YAML::Load(std::string(yaml)));
  } catch (const YAML::Exception& error) {
    fail("openapi.yaml: {}", error.what());
  }
  write_problems(document.as_object());
  return document;
}

Contract::Contract() : document_(parse_contract(openapi_text)) {}

const json::object* Contract::find_operation(std::string_view method, const std::string& path) const {
  const json::object* paths = member_object(&document_.as_object(), "paths");
  return member_object(member_object(paths, path), lower(method));
}

std::optional<std::vector<std::string>> Contract::query_names(std::string_view method, const std::string& path) const {
  const json::object* operation = find_operation(method, path);
  if (operation == nullptr) return std::nullopt;
  std::vector<std::string> names;
  for (const json::object* parameter : parameters_of(document_.as_object(), *operation)) {
    if (parameter->at("in") == "query") names.emplace_back(parameter->at("name").as_string());
  }
  return names;
}

std::vector<std::string> Contract::answer_types(std::string_view method, const std::string& path) const {
  std::vector<std::string> types;
  const json::object* answers = member_object(find_operation(method, path), "responses");
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
