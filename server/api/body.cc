#include "server/api/body.h"

#include <cmath>
#include <utility>

#include "base/check_name.h"
#include "base/log.h"
#include "server/http/problem.h"

namespace babelring::api {
namespace {

constexpr JsonLimits limits{.values = 1'000'000, .string_bytes = std::size_t{1} << 20};

}  // namespace

json::value parse_body(const http::Request& request) {
  auto body = parse_json(request.body, limits);
  if (!body) throw http::Problem(400, "bad_json", body.error());
  return std::move(*body);
}

Body::Body(const http::Request& request, bool optional) {
  if (optional && request.body.empty()) return;
  json::value body = parse_body(request);
  if (!body.is_object()) throw http::Problem(400, "bad_body", "the body: expected a JSON object");
  object_ = std::move(body.as_object());
}

Body::Body(json::value part, std::string place) : place_(std::move(place)) {
  if (!part.is_object()) refuse(place_.substr(0, place_.size() - 1), "expected a JSON object");
  object_ = std::move(part.get_object());
}

void Body::refuse(std::string_view name, const std::string& detail) {
  const std::string shown = printable(name.substr(0, 100));
  throw http::Problem(400, "bad_body", fmt::format("{}: {}", shown, detail), {{"/" + shown, detail}});
}

void Body::refuse_member(std::string_view name, const std::string& detail) const {
  refuse(place_ + std::string(name), detail);
}

const json::value* Body::value(std::string_view name) {
  known_.emplace(name);
  const json::value* found = object_.if_contains(name);
  return found == nullptr || found->is_null() ? nullptr : found;
}

std::optional<std::string> Body::text(std::string_view name, std::size_t max_bytes) {
  const json::value* found = value(name);
  if (found == nullptr) return std::nullopt;
  if (!found->is_string()) refuse_member(name, "expected a string");
  if (found->get_string().size() > max_bytes) {
    refuse_member(name, fmt::format("expected at most {} bytes, found {}", max_bytes, found->get_string().size()));
  }
  return std::string(found->get_string());
}

std::optional<std::string> Body::name_text(std::string_view name, std::size_t max_bytes) {
  auto found = text(name, max_bytes);
  if (found) require_name(place_ + std::string(name), *found);
  return found;
}

void Body::require_name(std::string_view name, std::string_view text) {
  const Status checked = check_name(text);
  if (checked) return;
  const std::string shown = printable(name.substr(0, 100));
  throw http::Problem(422, "text_refused", fmt::format("{}: {}", shown, checked.error()),
                      {{"/" + shown, checked.error()}});
}

std::string Body::required_text(std::string_view name, std::size_t max_bytes) {
  auto found = text(name, max_bytes);
  if (!found || found->empty()) refuse_member(name, "expected a non-empty string");
  return std::move(*found);
}

std::optional<std::int64_t> Body::integer(std::string_view name, std::int64_t low, std::int64_t high) {
  const json::value* found = value(name);
  if (found == nullptr) return std::nullopt;
  if (!found->is_int64() || found->get_int64() < low || found->get_int64() > high) {
    refuse_member(name, fmt::format("expected an integer from {} to {}", low, high));
  }
  return found->get_int64();
}

std::optional<double> Body::number(std::string_view name, double low, double high) {
  const json::value* found = value(name);
  if (found == nullptr) return std::nullopt;
  if (!found->is_number()) refuse_member(name, "expected a number");
  const auto number = found->to_number<double>();
  if (!(number >= low && number <= high))
    refuse_member(name, fmt::format("expected a number from {} to {}", low, high));
  return number;
}

std::optional<bool> Body::flag(std::string_view name) {
  const json::value* found = value(name);
  if (found == nullptr) return std::nullopt;
  if (!found->is_bool()) refuse_member(name, "expected true or false");
  return found->get_bool();
}

void Body::finish() const {
  for (const auto& [name, value] : object_) {
    if (!known_.contains(std::string_view(name))) refuse_member(name, "unknown member");
  }
}

}  // namespace babelring::api
