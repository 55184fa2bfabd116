#include "nmt/ops/backend.h"

#include <gtest/gtest.h>

namespace babelring {
namespace {

constexpr std::int64_t row_bytes = 32'000 * 2;  // of a vocabulary of 32,000 in bf16

TEST(LossChunks, AreTheProcessorsUnlessTheBackendSaysOtherwise) {
  const LossChunks chunks;
  EXPECT_EQ(chunks.max_rows(row_bytes), (160 << 20) / row_bytes);
  EXPECT_EQ(chunks.chunk_rows(25'000, row_bytes), (160 << 20) / row_bytes);  // the last one is shorter
  EXPECT_EQ(chunks.max_rows(std::int64_t{1} << 30), 256);
}

TEST(LossChunks, TakeAFractionOfDeviceMemory) {
  const auto bytes_of = [](std::int64_t gib) {
    return LossChunks::on_device(static_cast<std::size_t>(gib) << 30).bytes;
  };
  EXPECT_EQ(bytes_of(141), std::int64_t{2} << 30);
  EXPECT_EQ(bytes_of(80), std::int64_t{2} << 30);
  EXPECT_EQ(bytes_of(24), std::int64_t{768} << 20);
  EXPECT_EQ(bytes_of(2), std::int64_t{160} << 20);
  EXPECT_EQ(LossChunks::on_device(std::size_t{141} << 30).chunk_rows(25'000, row_bytes), 25'000);  // all in one
}

TEST(LossChunks, AreEqualOnADevice) {
  const LossChunks chunks{.bytes = 1000 * row_bytes, .equal = true};
  for (const std::int64_t rows : {1, 255, 999, 1000, 1001, 1999, 2000, 2001, 2999, 25'000, 25'001}) {
    const std::int64_t size = chunks.chunk_rows(rows, row_bytes);
    const std::int64_t count = (rows + size - 1) / size, last = rows - (count - 1) * size;
    EXPECT_LE(size, 1000) << rows;
    EXPECT_EQ(count, (rows + 999) / 1000) << rows;
    EXPECT_LT(size - last, count) << rows;
  }
  EXPECT_EQ(chunks.chunk_rows(0, row_bytes), 0);
}

}  // namespace

}  // namespace babelring
