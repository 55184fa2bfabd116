#include "base/json_get.h"

namespace babelring {

namespace json = boost::json;

std::string get_text(const json::object& object, std::string_view name) {
  const json::value* member = object.if_contains(name);
  return member != nullptr && member->is_string() ? std::string(member->get_string()) : "";
}

std::int64_t get_integer(const json::object& object, std::string_view name) {
  const json::value* member = object.if_contains(name);
  return member != nullptr && member->is_int64() ? member->get_int64() : 0;
}

std::optional<double> get_number(const json::object& object, std::string_view name) {
  const json::value* member = object.if_contains(name);
  if (member == nullptr || !member->is_number()) return std::nullopt;
  return member->to_number<double>();
}

bool get_flag(const json::object& object, std::string_view name) {
  const json::value* member = object.if_contains(name);
  return member != nullptr && member->is_bool() && member->get_bool();
}

const json::object* get_object(const json::object& object, std::string_view name) {
  const json::value* member = object.if_contains(name);
  return member != nullptr ? member->if_object() : nullptr;
}

}  // namespace babelring
