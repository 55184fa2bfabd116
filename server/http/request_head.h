#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "server/http/message.h"

namespace babelring::http {

/// A parsed request head.
struct RequestHead {
  RequestMessage message;  // without body
  bool expects_continue = false;
  bool takes_interim = false;  // HTTP/1.1: 1xx responses may precede the response
};

/// Parses a head accepted by check_framing(). The error describes any remaining fault.
Result<RequestHead> parse_head(std::string_view head);

}  // namespace babelring::http
