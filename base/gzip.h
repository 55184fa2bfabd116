#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace babelring {

/// A part of a gzip member. Parts that were compressed apart, as by several ranks, join without being compressed again.
struct GzipPart {
  std::string blocks;            // of raw deflate (RFC 1951), ending at a byte; none is the last of its member
  std::uint32_t crc = 0;         // CRC-32 of the text
  std::uint64_t text_bytes = 0;  // length of the text
};

/// Compresses a text at zlib level 1. Throws Failure if memory is short.
GzipPart gzip_part(std::string_view text);

/// Joins parts to one gzip member (RFC 1952), the only form that every reader takes: many stop after a first member.
class GzipMember {
 public:
  GzipMember();
  void add(const GzipPart& part);
  /// Ends the member and returns it. Called once.
  std::string finish();

 private:
  std::string bytes_;
  std::uint32_t crc_ = 0;
  std::uint64_t text_bytes_ = 0;
};

/// Compresses a text to one gzip member.
std::string gzip(std::string_view text);

}  // namespace babelring
