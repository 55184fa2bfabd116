#include "base/gzip.h"

#include <zlib.h>

#include <utility>

#include "base/failure.h"

namespace babelring {

GzipPart gzip_part(std::string_view text) {
  z_stream stream{};
  if (deflateInit2(&stream, 1, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY) != Z_OK) fail("zlib: cannot start");
  constexpr uLong flush_bytes = 16;  // the empty block of a flush, which deflateBound() does not count
  std::string packed(deflateBound(&stream, static_cast<uLong>(text.size())) + flush_bytes, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));  // zlib reads only
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  const int code = deflate(&stream, Z_FULL_FLUSH);
  const bool complete = code == Z_OK && stream.avail_in == 0 && stream.avail_out > 0;
  packed.resize(packed.size() - stream.avail_out);
  deflateEnd(&stream);
  if (!complete) fail("zlib: cannot compress {} bytes (code {})", text.size(), code);
  const uLong crc = crc32_z(0, reinterpret_cast<const Bytef*>(text.data()), text.size());
  return {.blocks = std::move(packed), .crc = static_cast<std::uint32_t>(crc), .text_bytes = text.size()};
}

// Magic number, deflate, no flags, no time, fastest compression, system unknown.
GzipMember::GzipMember() : bytes_("\x1f\x8b\x08\0\0\0\0\0\x04\xff", 10) {}

void GzipMember::add(const GzipPart& part) {
  bytes_ += part.blocks;
  crc_ = static_cast<std::uint32_t>(crc32_combine(crc_, part.crc, static_cast<z_off_t>(part.text_bytes)));
  text_bytes_ += part.text_bytes;
}

std::string GzipMember::finish() {
  bytes_ += std::string_view("\x03\0", 2);                                 // an empty last block, in the fixed code
  for (const std::uint64_t number : {std::uint64_t{crc_}, text_bytes_}) {  // 32 bits of each, little-endian
    for (int shift = 0; shift < 32; shift += 8) bytes_ += static_cast<char>(number >> shift & 0xff);
  }
  return std::move(bytes_);
}

std::string gzip(std::string_view text) {
  GzipMember member;
  member.add(gzip_part(text));
  return member.finish();
}

}  // namespace babelring
