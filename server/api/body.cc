#include "server/api/body.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/digest.h"
#include "base/log.h"
#include "base/names.h"
#include "server/http/fields.h"
#include "server/http/reply.h"

namespace babelring::api {
namespace {

constexpr std::size_t tag_digits = 24;  // of a digest, 96 bits

}  // namespace

std::string digest_of(std::string_view text) {
  return sha256_hex(text).substr(0, tag_digits);
}

std::string state_digest(json::object resource, std::initializer_list<std::string_view> volatile_members) {
  for (const std::string_view member : volatile_members) resource.erase(member);
  return digest_of(to_text(resource));
}

http::Response resource_response(const http::Request& request, const json::object& resource,
                                 std::initializer_list<std::string_view> volatile_members) {
  std::string body = to_text(resource);
  std::string etag = '"' + state_digest(resource, volatile_members) + '-' + digest_of(body) + '"';
  return tagged_response(request, std::move(body), std::move(etag));
}

http::Response tagged_response(const http::Request& request, std::string body, std::string etag) {
  http::Response response = http::text_response(200, "application/json", std::move(body));
  const std::string_view known = request.header("if-none-match");
  const bool same = !known.empty() && (http::lists_etag(known, etag) ||
                                       http::lists_etag(known, etag.substr(0, etag.size() - 1) + "-gzip\""));
  response.set("Cache-Control", "no-cache").set("ETag", std::move(etag));
  if (same) {
    response.status = 304;
    response.body = std::string();
  }
  return response;
}

void require_match(const http::Request& request, std::string_view state) {
  const std::string_view known = request.header("if-match");
  if (known.empty() || known == "*") return;
  const std::string prefix = '"' + std::string(state) + '-';
  const auto tags = http::entity_tags(known, http::WeakTags::take);
  if (std::none_of(tags.begin(), tags.end(), [&](std::string_view tag) { return tag.starts_with(prefix); })) {
    throw http::Problem(412, "changed", "the resource has changed since the ETag in If-Match; get it again");
  }
}

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

json::object Body::rest() {
  json::object left;
  for (const auto& [name, value] : object_) {
    if (known_.emplace(std::string_view(name)).second && !value.is_null()) left[name] = value;
  }
  return left;
}

void Body::finish() const {
  for (const auto& [name, value] : object_) {
    if (!known_.contains(std::string_view(name))) refuse_member(name, "unknown member");
  }
}

}  // namespace babelring::api
