#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/json.h"
#include "server/http/message.h"

namespace babelring::api {

/// The first 24 hexadecimal digits of a digest of `text`, for entity tags.
std::string digest_of(std::string_view text);

/// The digest of a resource without its time-dependent members `volatile_members` (ages, estimates). It is the first
/// half of the resource's ETag, and If-Match of PATCH and DELETE is compared with it.
std::string state_digest(json::object resource, std::initializer_list<std::string_view> volatile_members = {});

/// The response to a GET of a single resource, with the ETag "STATE-BODY". If-None-Match is compared with the whole tag
/// and gives 304, so that no client keeps an outdated age; If-Match is compared with STATE only.
http::Response resource_response(const http::Request& request, const json::object& resource,
                                 std::initializer_list<std::string_view> volatile_members = {});

/// The same for a serialized body: 200, or 304 if If-None-Match has `etag` (given with its quotes).
http::Response tagged_response(const http::Request& request, std::string body, std::string etag);

/// Checks If-Match of a PATCH, PUT or DELETE. Throws Problem 412 if no strong tag in it has this state. Accepts
/// requests without the header or with "*".
void require_match(const http::Request& request, std::string_view state);

/// Parses a request's body as JSON. Limits: depth 32, a million values, strings of 1 MiB, no duplicate members, finite
/// numbers. Throws Problem 400 bad_json.
json::value parse_body(const http::Request& request);

/// The members of a request's body, a JSON object. Members are read by name; finish() refuses members that were not
/// read. All functions throw Problem 400 bad_body, whose `errors` name the member.
class Body {
 public:
  /// With `optional`, an absent body is an empty object.
  explicit Body(const http::Request& request, bool optional = false);
  /// An object within a body, at the JSON pointer "/" + `place`. `place` ends in "/".
  Body(json::value part, std::string place);

  /// Each returns nullopt for a member that is absent or null.
  std::optional<std::string> text(std::string_view name, std::size_t max_bytes);
  /// A text for display. Throws Problem 422 text_refused if it has a control or invisible character.
  std::optional<std::string> name_text(std::string_view name, std::size_t max_bytes);
  std::optional<std::int64_t> integer(std::string_view name, std::int64_t low, std::int64_t high);
  std::optional<double> number(std::string_view name, double low, double high);
  std::optional<bool> flag(std::string_view name);
  /// Any value but null, for the caller to check. Null if absent.
  const json::value* value(std::string_view name);

  std::string required_text(std::string_view name, std::size_t max_bytes);

  /// The members that were not read and are not null, for another program to check.
  json::object rest();
  /// Refuses members that were not read.
  void finish() const;

  /// Throws Problem 400 bad_body. `name` is the member's full path in the body.
  [[noreturn]] static void refuse(std::string_view name, const std::string& detail);
  /// Throws Problem 422 text_refused if `text` has a control or invisible character. `name` is the member's full path.
  static void require_name(std::string_view name, std::string_view text);

 private:
  [[noreturn]] void refuse_member(std::string_view name, const std::string& detail) const;
  std::string place_;
  json::object object_;
  std::set<std::string, std::less<>> known_;
};

}  // namespace babelring::api
