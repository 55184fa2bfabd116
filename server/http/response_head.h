#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "server/http/message.h"

namespace babelring::http {

/// Framing of a response. With neither a length nor chunked encoding, the end of the connection ends the body.
struct BodyFraming {
  std::optional<std::int64_t> length;  // Content-Length
  bool chunked = false;                // Transfer-Encoding: chunked
  bool close = false;                  // Connection: close
  bool strict_transport = false;       // Strict-Transport-Security
};

/// Serializes the response head: status line, Date, the response's headers, framing, request id, the standard security
/// headers, and the empty line.
std::string response_head(const Response& response, const BodyFraming& framing, const std::string& request_id);

}  // namespace babelring::http
