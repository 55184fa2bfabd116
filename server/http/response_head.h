#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "server/http/message.h"

namespace babelring::http {

/// How the end of the body is marked. With neither a length nor chunks, the connection's end is its end.
struct BodyFraming {
  std::optional<std::int64_t> length;  // Content-Length
  bool chunked = false;                // Transfer-Encoding: chunked
  bool close = false;                  // Connection: close
  bool strict_transport = false;       // Strict-Transport-Security
};

/// Status line, headers and the empty line: Date, the response's own headers, framing, request id, and the security
/// headers of every response.
std::string response_head(const Response& response, const BodyFraming& framing, const std::string& request_id);

}  // namespace babelring::http
