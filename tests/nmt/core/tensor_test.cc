#include "nmt/core/tensor.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "base/failure.h"
#include "nmt/core/buffer.h"

namespace babelring {
namespace {

TEST(Shape, ElementsAndText) {
  EXPECT_EQ(Shape().elements(), 1);
  EXPECT_EQ((Shape{3, 5, 7}.elements()), 105);
  EXPECT_EQ((Shape{64, 0}.elements()), 0);
  EXPECT_EQ((Shape{64, 512}.text()), "[64, 512]");
  EXPECT_THROW((Shape{-1}), Failure);
  EXPECT_THROW((Shape{1, 2, 3, 4, 5}), Failure);
}

TEST(BFloat16, RoundsToNearestEven) {
  EXPECT_EQ(BFloat16(1.0f).bits, 0x3f80);
  EXPECT_EQ(static_cast<float>(BFloat16(1.0f + 0x1.0p-8f)), 1.0f);               // halfway: to even, down
  EXPECT_EQ(static_cast<float>(BFloat16(1.0f + 0x3.0p-8f)), 1.0f + 0x1.0p-6f);   // halfway: to even, up
  EXPECT_EQ(static_cast<float>(BFloat16(1.0f + 0x1.02p-8f)), 1.0f + 0x1.0p-7f);  // just above halfway
  EXPECT_TRUE(std::isnan(static_cast<float>(BFloat16(std::nanf("")))));
  EXPECT_TRUE(std::isinf(static_cast<float>(BFloat16(3.4e38f))));
}

class SliceTest : public testing::Test {
 protected:
  SliceTest() { std::iota(values_.begin(), values_.end(), 0.0f); }
  std::vector<float> values_ = std::vector<float>(12);
  Tensor whole_{values_.data(), Shape{3, 4}, DType::f32};
};

TEST_F(SliceTest, ColumnsKeepTheRowStride) {
  const Tensor part = whole_.column_slice(1, 2);
  EXPECT_EQ(part.shape, (Shape{3, 2}));
  EXPECT_EQ(part.row_stride, 4);
  EXPECT_FALSE(part.contiguous());
  EXPECT_EQ(part.as<float>()[part.row_stride], 5.0f);
}

TEST_F(SliceTest, RowsAreContiguous) {
  const ConstTensor part = ConstTensor(whole_).row_slice(1, 2);
  EXPECT_EQ(part.shape, (Shape{2, 4}));
  EXPECT_TRUE(part.contiguous());
  EXPECT_EQ(part.as<float>()[0], 4.0f);
}

TEST_F(SliceTest, RowsOfColumnsKeepStrideAndOffset) {
  const Tensor part = whole_.column_slice(2, 2).row_slice(1, 2);
  EXPECT_EQ(part.as<float>()[0], 6.0f);
  EXPECT_EQ(part.as<float>()[part.row_stride + 1], 11.0f);
}

TEST_F(SliceTest, RejectsOutOfRange) {
  EXPECT_THROW(whole_.column_slice(3, 2), Failure);
  EXPECT_THROW(whole_.row_slice(-1, 1), Failure);
  EXPECT_THROW((Tensor(values_.data(), Shape{12}, DType::f32).column_slice(0, 1)), Failure);
}

TEST(TotalBytes, SkipsNullTensorsAndStridePadding) {
  std::vector<float> values(12);
  const Tensor whole(values.data(), Shape{3, 4}, DType::f32);
  EXPECT_EQ(total_bytes({whole, Tensor(), whole.column_slice(1, 2)}), 4 * (12 + 6));
}

TEST(Buffer, ViewsAreCheckedAndAligned) {
  const Buffer buffer = allocate_host(1000);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % 256, 0U);
  EXPECT_EQ(buffer.view(Shape{250}, DType::f32).as<float>()[249], 0.0f);
  try {
    buffer.view(Shape{251}, DType::f32);
    FAIL() << "a view past the end was given";
  } catch (const Failure& failure) {
    EXPECT_STREQ(failure.what(), "buffer: f32 [251] at byte 0 needs 1004 bytes, the buffer has 1000");
  }
}

}  // namespace
}  // namespace babelring
