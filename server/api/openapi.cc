#include "server/api/openapi.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "base/failure.h"
#include "base/json.h"
#include "base/text.h"
#include "server/api/openapi_text.h"
#include "server/http/fields.h"
#include "server/http/message.h"

namespace babelring::api {
namespace {

constexpr const char* problem_type = "application/problem+json";

json::value take_member(json::object& object, std::string_view name) {
  json::value* found = object.if_contains(name);
  if (found == nullptr) return nullptr;
  json::value taken = std::move(*found);
  object.stable_erase(object.find(name));
  return taken;
}

bool succeeds_with_content(const json::object& operation) {
  const json::object& responses = operation.at("responses").as_object();
  return std::any_of(responses.begin(), responses.end(), [](const auto& response) {
    return response.key().starts_with('2') && response.value().as_object().contains("content");
  });
}

class ProblemWriter {
 public:
  explicit ProblemWriter(json::object& contract)
      : contract_(contract), problems_(take_member(contract, "x-problems").as_object()) {}

  void write() {
    // Operations refer only to `components`, which is changed last.
    for (auto& path : contract_.at("paths").as_object()) {
      for (auto& [method, operation] : path.value().as_object()) {
        write_operation(std::string(method), operation.as_object());
      }
    }
    json::object& components = contract_.at("components").as_object();
    json::object& shared = components["responses"].is_object() ? components["responses"].as_object()
                                                               : components["responses"].emplace_object();
    for (auto& [name, response] : shared_) shared[name] = std::move(response);
    json::array all;
    for (const auto& code : codes()) all.emplace_back(code.key());
    auto& members = components.at("schemas").at("Problem").at("properties").as_object();
    members["code"] = json::object{{"enum", std::move(all)}};
  }

 private:
  const json::object& codes() const { return problems_.at("codes").as_object(); }

  /// Adds the codes of a list under given_by.
  void add_given(std::set<std::string>& codes, std::string_view kind) const {
    add_codes(codes, problems_.at("given_by").at(kind));
  }

  static void add_codes(std::set<std::string>& codes, const json::value& list) {
    for (const json::value& code : list.as_array()) codes.emplace(code.as_string());
  }

  std::set<std::string> codes_of(const std::string& method, json::object& operation) const {
    std::set<std::string> found;
    add_given(found, "any");
    const json::value* security = operation.if_contains("security");
    if (security == nullptr) security = &contract_.at("security");
    const json::array& wanted = security->as_array();
    if (!wanted.empty()) add_given(found, "token");
    if (succeeds_with_content(operation)) add_given(found, "content");
    if (method != "get") add_given(found, "write");
    if (method != "get" && !wanted.empty() && wanted[0].at("token").at(0) != "read") add_given(found, "change");
    if (operation.contains("requestBody")) add_given(found, "body");
    const json::object& by_parameter = problems_.at("given_by").at("parameter").as_object();
    for (const json::object* parameter : parameters_of(contract_, operation)) {
      if (const auto* list = by_parameter.if_contains(parameter->at("name").as_string())) add_codes(found, *list);
    }
    const json::value own = take_member(operation, "x-errors");
    if (own.is_array()) add_codes(found, own);
    if (take_member(operation, "x-any-host").is_bool()) found.erase("host_unknown");
    return found;
  }

  void write_operation(const std::string& method, json::object& operation) {
    std::map<std::string, std::vector<std::string>> by_status;
    for (const std::string& code : codes_of(method, operation)) {
      const json::value* entry = codes().if_contains(code);
      if (entry == nullptr) {
        fail("openapi.yaml: {}: '{}' is not under x-problems", operation.at("operationId").as_string().c_str(), code);
      }
      const json::value& status = entry->at("status");
      if (!status.is_array()) by_status[to_text(status)].push_back(code);
      for (const json::value& one : status.is_array() ? status.get_array() : json::array()) {
        by_status[to_text(one)].push_back(code);
      }
    }
    json::object& responses = operation.at("responses").as_object();
    for (const auto& [status, codes] : by_status) {
      if (json::value* described = responses.if_contains(status)) {
        json::object& response = described->as_object();
        if (!response.contains("content")) response["content"] = json::object();
        response["content"].as_object()[problem_type] = json::object{{"schema", schema_of(codes)}};
      } else {
        responses[status] = json::object{{"$ref", "#/components/responses/" + shared_response(status, codes)}};
      }
    }
  }

  static json::object schema_of(const std::vector<std::string>& codes) {
    const json::object narrowed = {{"enum", json::array(codes.begin(), codes.end())}};
    const json::object problem = {{"$ref", "#/components/schemas/Problem"}};
    const json::object code = {{"properties", json::object{{"code", narrowed}}}};
    return {{"allOf", json::array{problem, code}}};
  }

  /// The name of the shared response with these codes: "410.gone.removed".
  std::string shared_response(const std::string& status, const std::vector<std::string>& codes) {
    std::string name = status, text(http::reason_of(std::stoi(status)));
    for (const std::string& code : codes) {
      name += '.' + code;
      const json::value& entry = this->codes().at(code);
      text += "\n- `" + code + "`: " + std::string(entry.at("meaning").as_string());
    }
    const json::object content = {{problem_type, json::object{{"schema", schema_of(codes)}}}};
    shared_[name] = {{"description", text}, {"content", content}};
    return name;
  }

  json::object& contract_;
  const json::object problems_;
  std::map<std::string, json::object> shared_;
};

}  // namespace

std::vector<const json::object*> parameters_of(const json::object& contract, const json::object& operation) {
  std::vector<const json::object*> found;
  const json::value* list = operation.if_contains("parameters");
  if (list == nullptr) return found;
  for (const json::value& entry : list->as_array()) {
    const json::object* parameter = &entry.as_object();
    if (const json::value* reference = parameter->if_contains("$ref")) {
      const std::string_view name(reference->as_string());
      const auto& shared = contract.at("components").at("parameters").as_object();
      parameter = &shared.at(name.substr(name.rfind('/') + 1)).as_object();
    }
    found.push_back(parameter);
  }
  return found;
}

void write_problems(json::object& contract) {
  try {
    ProblemWriter(contract).write();
  } catch (const boost::system::system_error& error) {
    fail("openapi.yaml: {}", error.what());
  }
}

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
