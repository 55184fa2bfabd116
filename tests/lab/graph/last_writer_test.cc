#include "lab/graph/last_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

namespace babelring {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class LastWriterTest : public testing::Test {
 protected:
  std::array<float, 64> values_{};
  const ConstTensor matrix_{values_.data(), Shape{8, 8}, DType::f32};
  LastWriter writers_;
};

TEST_F(LastWriterTest, NobodyHasWrittenAtFirst) {
  EXPECT_THAT(writers_.of(matrix_).ops, IsEmpty());
  EXPECT_TRUE(writers_.of(matrix_).unwritten);
}

TEST_F(LastWriterTest, PartsOfAnOlderWriteRemain) {
  writers_.write(matrix_, 1);
  writers_.write(matrix_.row_slice(2, 3), 2);
  EXPECT_THAT(writers_.of(matrix_).ops, ElementsAre(1, 2));
  EXPECT_FALSE(writers_.of(matrix_).unwritten);
  EXPECT_THAT(writers_.of(matrix_.row_slice(0, 2)).ops, ElementsAre(1));
  EXPECT_THAT(writers_.of(matrix_.row_slice(3, 1)).ops, ElementsAre(2));
  EXPECT_THAT(writers_.of(matrix_.row_slice(5, 3)).ops, ElementsAre(1));
  writers_.write(matrix_, 3);
  EXPECT_THAT(writers_.of(matrix_).ops, ElementsAre(3));
}

TEST_F(LastWriterTest, ColumnsOfOneMatrixHaveDifferentWriters) {
  writers_.write(matrix_.column_slice(0, 4), 1);
  writers_.write(matrix_.column_slice(4, 2), 2);
  EXPECT_THAT(writers_.of(matrix_.column_slice(0, 4)).ops, ElementsAre(1));
  EXPECT_THAT(writers_.of(matrix_.column_slice(4, 2)).ops, ElementsAre(2));
  EXPECT_THAT(writers_.of(matrix_).ops, ElementsAre(1, 2));
  EXPECT_TRUE(writers_.of(matrix_).unwritten) << "columns 6 and 7";
  EXPECT_THAT(writers_.of(matrix_.column_slice(6, 2)).ops, IsEmpty());
}

}  // namespace
}  // namespace babelring
