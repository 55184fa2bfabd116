#include "server/store/log_blocks.h"

#include <zstd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/failure.h"

namespace babelring::store {
namespace {

constexpr int compression_level = 3;
constexpr std::array<std::string_view, 4> known_levels = {"debug", "info", "warn", "error"};

#pragma pack(push, 1)
struct LineHead {
  std::int64_t time_ms;
  std::int32_t attempt, rank;
  std::uint32_t text_bytes;
  std::uint8_t level_bytes;
};
#pragma pack(pop)
static_assert(sizeof(LineHead) == 21);

}  // namespace

int level_bit(std::string_view level) {
  const auto found = std::find(known_levels.begin(), known_levels.end(), level);
  return 1 << (found - known_levels.begin());
}

void LogBlock::add(const LogLine& line) {
  const std::string_view level = line.level.substr(0, 255);
  const LineHead head{line.time_ms, static_cast<std::int32_t>(line.attempt), static_cast<std::int32_t>(line.rank),
                      static_cast<std::uint32_t>(line.text.size()), static_cast<std::uint8_t>(level.size())};
  raw_.append(reinterpret_cast<const char*>(&head), sizeof head);
  raw_.append(level).append(line.text);
  lowest_rank_ = lines_ == 0 ? line.rank : std::min(lowest_rank_, line.rank);
  highest_rank_ = std::max(highest_rank_, line.rank);
  levels_ |= level_bit(line.level);
  ++lines_;
}

std::string LogBlock::compressed() const {
  std::string packed(ZSTD_compressBound(raw_.size()), '\0');
  const std::size_t size = ZSTD_compress(packed.data(), packed.size(), raw_.data(), raw_.size(), compression_level);
  if (ZSTD_isError(size) != 0) fail("log block: zstd: {}", ZSTD_getErrorName(size));
  packed.resize(size);
  return packed;
}

std::string unpack_block(std::string_view compressed, std::size_t raw_bytes) {
  std::string raw(raw_bytes, '\0');
  const std::size_t size = ZSTD_decompress(raw.data(), raw.size(), compressed.data(), compressed.size());
  if (ZSTD_isError(size) != 0) fail("log block: zstd: {}", ZSTD_getErrorName(size));
  if (size != raw_bytes) fail("log block: unpacks to {} bytes, expected {}", size, raw_bytes);
  return raw;
}

void visit_lines(std::string_view raw, const std::function<bool(const LogLine&)>& visit) {
  while (!raw.empty()) {
    LineHead head;
    if (raw.size() < sizeof head) fail("log block: {} bytes left, a line's head has {}", raw.size(), sizeof head);
    std::memcpy(&head, raw.data(), sizeof head);
    raw.remove_prefix(sizeof head);
    const std::size_t bytes = std::size_t{head.level_bytes} + head.text_bytes;
    if (raw.size() < bytes) fail("log block: {} bytes left, a line has {}", raw.size(), bytes);
    const LogLine line{head.attempt, head.rank, head.time_ms, raw.substr(0, head.level_bytes),
                       raw.substr(head.level_bytes, head.text_bytes)};
    raw.remove_prefix(bytes);
    if (!visit(line)) return;
  }
}

}  // namespace babelring::store
