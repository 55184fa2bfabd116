#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "base/json.h"
#include "server/http/message.h"

namespace babelring::api {

/// 24 digits of a digest of `text`, of which entity tags are made.
std::string digest_of(std::string_view text);

/// What a thing's entity tag begins with: a digest of the thing without what changes by the mere passing of time (ages,
/// estimates). PATCH and DELETE are held against it.
std::string state_of(json::object thing, std::initializer_list<std::string_view> fleeting = {});

/// A single thing as the answer to GET, with the entity tag "STATE-BODY": If-None-Match is held against the whole and
/// gives 304, so nobody keeps an old age; If-Match is later held against STATE alone.
http::Response thing_response(const http::Request& request, const json::object& thing,
                              std::initializer_list<std::string_view> fleeting = {});

/// The same of what is text already: 200 with it, or 304 where the client has that entity tag (with its quotes).
http::Response tagged_response(const http::Request& request, std::string body, std::string etag);

/// If-Match of a PATCH, PUT or DELETE: throws Problem 412 where the client has not seen this state, or says so by a
/// weak tag alone. Without the header, and for "*", nothing happens.
void require_match(const http::Request& request, std::string_view state);

}  // namespace babelring::api
