#include "nmt/data/gssm/difficulty.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/failure.h"

namespace babelring {
namespace {

/// Counts the bytes that zlib makes of a stream. Keeps none of them.
class CompressedSize {
 public:
  CompressedSize() {
    if (deflateInit(&stream_, Z_BEST_COMPRESSION) != Z_OK) fail("zlib: cannot start");
  }
  ~CompressedSize() { deflateEnd(&stream_); }
  CompressedSize(const CompressedSize&) = delete;
  CompressedSize& operator=(const CompressedSize&) = delete;

  void add(std::span<const std::int32_t> tokens) {
    std::array<unsigned char, 8 * 1024> bytes;
    for (std::size_t at = 0; at < tokens.size(); at += bytes.size() / 8) {
      const auto part = tokens.subspan(at, std::min(bytes.size() / 8, tokens.size() - at));
      for (std::size_t i = 0; i < part.size(); ++i) {
        for (std::size_t byte = 0; byte < 8; ++byte) {
          bytes[8 * i + byte] = static_cast<unsigned char>(static_cast<std::int64_t>(part[i]) >> (8 * byte));
        }
      }
      compress(bytes.data(), 8 * part.size(), Z_NO_FLUSH);
    }
  }
  std::int64_t finish() {
    compress(nullptr, 0, Z_FINISH);
    return static_cast<std::int64_t>(stream_.total_out);
  }

 private:
  void compress(unsigned char* data, std::size_t size, int flush) {
    std::array<unsigned char, 16 * 1024> out;
    stream_.next_in = data;
    stream_.avail_in = static_cast<unsigned>(size);
    do {
      stream_.next_out = out.data();
      stream_.avail_out = static_cast<unsigned>(out.size());
      if (deflate(&stream_, flush) == Z_STREAM_ERROR) fail("zlib: cannot compress");
    } while (stream_.avail_out == 0);
  }

  z_stream stream_ = {};
};

}  // namespace

double compressed_bytes_per_token(std::span<const std::int32_t> tokens) {
  if (tokens.empty()) fail("difficulty: no tokens, expected at least 1");
  CompressedSize size;
  size.add(tokens);
  return static_cast<double>(size.finish()) / static_cast<double>(tokens.size());
}

double measure_difficulty(const GssmGenerator& generator, const GssmPlace& place, std::int64_t sequences,
                          std::int64_t length) {
  if (sequences < 1 || length < 1) {
    fail("difficulty: {} sequences of {} tokens, expected at least 1 each", sequences, length);
  }
  CompressedSize size;
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(length));
  for (std::int64_t i = 0; i < sequences; ++i) {
    const GssmPlace at{.seed = place.seed, .update = place.update, .sequence = i};
    generator.generate(generator.kernels(at), at, tokens);
    size.add(tokens);
  }
  return static_cast<double>(size.finish()) / static_cast<double>(sequences * length);
}

double noise_difficulty(std::int64_t vocabulary, std::int64_t tokens) {
  Random random(1);
  std::vector<std::int32_t> noise(static_cast<std::size_t>(tokens));
  for (std::int32_t& token : noise)
    token = static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(vocabulary)));
  return compressed_bytes_per_token(noise);
}

std::string zlib_library() {
  return zlibVersion();
}

}  // namespace babelring
