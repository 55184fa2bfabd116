#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace babelring::http {

/// Why a request head is refused. The connection is closed after the response: what follows cannot be trusted.
struct FramingFault {
  int status = 400;
  std::string detail;
};

/// Checks the raw bytes of a request head (up to and including the empty line) more strictly than Beast 1.81's parser,
/// which accepts framings that other servers read differently (request smuggling). Refuses any Transfer-Encoding,
/// several or malformed Content-Length fields, folded lines, an absent or repeated Host or one with a malformed port,
/// bare CR or LF, control bytes, space before the colon, and unknown methods and versions. Nothing if the head is well
/// formed.
std::optional<FramingFault> check_framing(std::string_view head);

inline constexpr std::size_t most_request_line_bytes = 4096;
inline constexpr std::size_t most_header_bytes = 8192;
inline constexpr std::size_t most_header_fields = 64;

}  // namespace babelring::http
