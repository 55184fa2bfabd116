#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "server/http/message.h"

namespace babelring::http {

/// Why a request head is refused. The connection must be closed after the response, because the framing of the
/// following bytes is unreliable.
struct FramingFault {
  int status = 400;
  std::string detail;
};

/// Checks the raw bytes of a request head, up to and including the empty line. It is stricter than the parser of Beast
/// 1.81, which accepts ambiguous framing (request smuggling). Refuses any Transfer-Encoding; repeated or malformed
/// Content-Length; folded lines; a missing or repeated Host, or one with a malformed port; bare CR or LF; control
/// bytes; space before the colon; and unknown methods and versions. Returns nothing if the head is well formed.
std::optional<FramingFault> check_framing(std::string_view head);

inline constexpr std::size_t max_request_line_bytes = 4096;
inline constexpr std::size_t max_header_bytes = 8192;
inline constexpr std::size_t max_header_fields = 64;

/// A parsed request head.
struct RequestHead {
  RequestMessage message;  // without body
  bool expects_continue = false;
  bool takes_interim = false;  // HTTP/1.1: 1xx responses may precede the response
};

/// Parses a head accepted by check_framing(). The error describes any remaining fault.
Result<RequestHead> parse_head(std::string_view head);

}  // namespace babelring::http
