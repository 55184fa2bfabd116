#include "worker/delivery.h"

#include <fmt/format.h>

#include <boost/json/object.hpp>
#include <string_view>

#include "nmt/base/json.h"
#include "nmt/base/log.h"

namespace babelring {
namespace {

constexpr std::size_t quoted_bytes = 300;

std::string_view text_of(const json::object& object, std::string_view name) {
  const json::value* member = object.if_contains(name);
  return member != nullptr && member->is_string() ? std::string_view(member->get_string()) : std::string_view();
}

}  // namespace

Delivery delivery_of(int status) {
  if (status >= 200 && status < 300) return Delivery::stored;
  const bool about_records = status == 400 || status == 409 || status == 413 || status == 422;
  return about_records ? Delivery::refused : Delivery::again;
}

std::string explain(const HttpAnswer& answer) {
  const auto body = parse_json(answer.body);
  std::string text;
  if (body.ok() && body->is_object()) {
    const std::string_view title = text_of(body->get_object(), "title"), detail = text_of(body->get_object(), "detail");
    text = fmt::format("{}{}{}", title, title.empty() || detail.empty() ? "" : ": ", detail);
  }
  if (text.empty()) text = answer.body;
  return fmt::format("{} {}", answer.status, printable(std::string_view(text).substr(0, quoted_bytes)));
}

}  // namespace babelring
