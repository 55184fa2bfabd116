#include "nmt/core/buffer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

namespace babelring {
namespace {

class ArenaTest : public testing::Test {
 protected:
  int blocks_ = 0;
  Arena arena_{[this](std::size_t bytes) {
                 ++blocks_;
                 return allocate_host(bytes);
               },
               true, 4096};
};

TEST_F(ArenaTest, TensorsDoNotOverlapAndAreAligned) {
  const Tensor a = arena_.make(Shape{3}, DType::f32);
  const Tensor b = arena_.make(Shape{3}, DType::bf16);
  EXPECT_EQ(static_cast<char*>(b.data) - static_cast<char*>(a.data), 256);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(b.data) % 256, 0U);
}

TEST_F(ArenaTest, HoldsWhatIsInUse) {
  const Tensor kept = arena_.make(Shape{3}, DType::f32);
  EXPECT_TRUE(arena_.holds(kept.data));
  EXPECT_FALSE(arena_.holds(&kept));
  Tensor large;
  {
    const Arena::Scope scope(arena_);
    large = arena_.make(Shape{2000}, DType::f32);  // in a separate block
    EXPECT_TRUE(arena_.holds(large.data));
  }
  EXPECT_FALSE(arena_.holds(large.data));
  EXPECT_TRUE(arena_.holds(kept.data));
  arena_.reset();
  EXPECT_FALSE(arena_.holds(kept.data));
}

TEST_F(ArenaTest, ScopeRewinds) {
  arena_.make(Shape{10}, DType::f32);
  void* first = nullptr;
  {
    const Arena::Scope scope(arena_);
    first = arena_.make(Shape{100}, DType::f32).data;
    EXPECT_EQ(arena_.used_bytes(), 256U + 512U);
  }
  EXPECT_EQ(arena_.used_bytes(), 256U);
  EXPECT_EQ(arena_.make(Shape{1}, DType::f32).data, first);
  EXPECT_EQ(arena_.peak_bytes(), 256U + 512U);
}

TEST_F(ArenaTest, ReserveAllocatesAtOnce) {
  arena_.reserve(0);
  EXPECT_EQ(blocks_, 0);
  arena_.reserve(100'000);
  EXPECT_EQ(blocks_, 1);
  for (const int elements : {1'000, 20'000, 3'000}) arena_.make(Shape{elements}, DType::f32);
  EXPECT_EQ(blocks_, 1);
  arena_.reserve(200'000);  // no effect: there is already a block
  EXPECT_EQ(blocks_, 1);
}

TEST_F(ArenaTest, BlocksAreReusedAfterReset) {
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < 40; ++i) arena_.make(Shape{100}, DType::f32);
    arena_.make(Shape{5000}, DType::f32);  // larger than a block
    arena_.reset();
  }
  EXPECT_EQ(blocks_, 6);
  EXPECT_EQ(arena_.used_bytes(), 0U);
}

TEST_F(ArenaTest, GrowingSizesEndInOneBlock) {
  std::size_t held = 0, max_held = 0;
  Arena arena(
      [&](std::size_t bytes) {
        max_held = std::max(max_held, held += bytes);
        const auto memory = std::make_shared<Buffer>(allocate_host(bytes));
        return Buffer(memory->data(), bytes, [&held, memory, bytes](void*) { held -= bytes; });
      },
      true, 4096);
  for (int rows = 100; rows <= 200; rows += 10) {
    for (int tensor = 0; tensor < 5; ++tensor) arena.make(Shape{rows, 1000}, DType::f32);
    arena.reset_to_one_block();
  }
  EXPECT_EQ(arena.peak_bytes(), 5U * 200 * 1000 * 4);
  EXPECT_EQ(held, arena.peak_bytes());
  EXPECT_LT(max_held, 2 * arena.peak_bytes());
}

TEST_F(ArenaTest, PadsRowsOfFourKibibytes) {
  const Tensor short_rows = arena_.make_rows(3, 100, DType::bf16);
  EXPECT_TRUE(short_rows.contiguous());
  const Tensor long_rows = arena_.make_rows(3, 4096, DType::bf16);
  EXPECT_EQ(long_rows.shape, (Shape{3, 4096}));
  EXPECT_EQ(long_rows.row_stride, 4096 + 32);
  const Tensor floats = arena_.make_rows(2, 1024, DType::f32);
  EXPECT_EQ(floats.row_stride, 1024 + 16);
}

TEST_F(ArenaTest, DeviceArenaDoesNotPadRows) {
  Arena arena(allocate_host, false);
  EXPECT_TRUE(arena.make_rows(3, 4096, DType::bf16).contiguous());
}

TEST_F(ArenaTest, AllowsEmptyTensors) {
  const Tensor empty = arena_.make(Shape{0, 7}, DType::f32);
  EXPECT_EQ(empty.shape.elements(), 0);
}

}  // namespace

}  // namespace babelring
