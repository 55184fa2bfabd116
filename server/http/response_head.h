#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "server/http/message.h"

namespace babelring::http {

/// How the body's end is marked.
struct BodyFraming {
  std::optional<std::int64_t> length;  // Content-Length
  bool chunked = false;                // Transfer-Encoding: chunked; neither: the connection's end
  bool close = false;                  // Connection: close
};

/// Status line and headers with the empty line: the response's own, Date, framing, request id, and the security headers
/// that every answer has.
std::string response_head(const Response& response, const BodyFraming& framing, const std::string& request_id);

}  // namespace babelring::http
