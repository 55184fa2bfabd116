#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "nmt/base/json.h"
#include "server/http/message.h"

namespace babelring::api {

/// What a thing's entity tag begins with: a digest of the thing without what changes by the mere passing of time (ages,
/// estimates). PATCH and DELETE are held against it.
std::string state_of(json::object thing, std::initializer_list<std::string_view> fleeting = {});

/// A single thing as the answer to GET, with the entity tag "STATE-BODY": If-None-Match is held against the whole and
/// gives 304, so nobody keeps an old age; If-Match is later held against STATE alone.
http::Response thing_response(const http::Request& request, const json::object& thing,
                              std::initializer_list<std::string_view> fleeting = {});

/// If-Match of a PATCH, PUT or DELETE: throws Problem 412 where the client has not seen this state. Without the header,
/// and for "*", nothing happens.
void require_match(const http::Request& request, std::string_view state);

}  // namespace babelring::api
