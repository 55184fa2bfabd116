#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace babelring::http {

/// Why a request head is refused. The connection is closed after the answer: what follows cannot be trusted.
struct FramingFault {
  int status = 400;
  std::string detail;
};

/// Holds the raw bytes of a request head (up to and including the empty line) to stricter rules than Beast 1.81's
/// parser, which accepts several framings that other servers read differently (request smuggling): any
/// Transfer-Encoding, several or odd Content-Length, folded lines, absent or repeated Host, bare CR or LF, control
/// bytes, space before the colon, unknown methods and versions. Nothing if the head is sound.
std::optional<FramingFault> check_framing(std::string_view head);

inline constexpr std::size_t most_request_line_bytes = 4096;
inline constexpr std::size_t most_header_bytes = 8192;
inline constexpr std::size_t most_header_fields = 64;

}  // namespace babelring::http
