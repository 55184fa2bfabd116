#pragma once

#include <initializer_list>
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

}  // namespace babelring::api
