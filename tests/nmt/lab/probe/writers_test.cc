#include "nmt/lab/probe/writers.h"

#include <gtest/gtest.h>

#include "tests/nmt/ops/op_fixture.h"

namespace babelring {
namespace {

using Numbers = std::vector<std::int64_t>;

TEST(Writers, NameTheLastWriterOfEachByte) {
  Tensors tensors;
  const Tensor x = tensors.zeros({8}, DType::f32), rest = tensors.zeros({8}, DType::f32);
  Writers writers;
  EXPECT_EQ(writers.of(x), Numbers());
  writers.wrote(x, 0);
  EXPECT_EQ(writers.of(x), Numbers{0});
  writers.wrote(x.row_slice(2, 3), 1);
  EXPECT_EQ(writers.of(x), (Numbers{0, 1}));
  EXPECT_EQ(writers.of(x.row_slice(0, 2)), Numbers{0});
  EXPECT_EQ(writers.of(x.row_slice(3, 1)), Numbers{1});
  EXPECT_EQ(writers.of(x.row_slice(5, 3)), Numbers{0});
  writers.wrote(x, 2);
  EXPECT_EQ(writers.of(x), Numbers{2}) << "what is overwritten is forgotten";
  EXPECT_EQ(writers.of(rest), Numbers());
}

TEST(Writers, ForgetMemoryThatIsUsedAnew) {
  Tensors tensors;
  const Tensor x = tensors.zeros({8}, DType::f32), y = tensors.zeros({8}, DType::f32);
  Writers writers;
  writers.wrote(x, 3);
  writers.wrote(y, Writers::nobody);
  EXPECT_EQ(writers.of(y), Numbers{-1}) << "written, but by no record";
  writers.forget_unless([&](const void* address) { return address == x.data; });
  EXPECT_EQ(writers.of(x), Numbers{3});
  EXPECT_EQ(writers.of(y), Numbers());
}

TEST(Writers, FollowColumnsOfAMatrix) {
  Tensors tensors;
  const Tensor joined = tensors.zeros({5, 12}, DType::bf16);
  Writers writers;
  writers.wrote(joined, 0);
  for (int part = 0; part < 3; ++part) writers.wrote(joined.column_slice(4 * part, 4), part + 1);
  EXPECT_EQ(writers.of(joined), (Numbers{1, 2, 3})) << "nothing of the first writer is left";
  EXPECT_EQ(writers.of(joined.column_slice(4, 4)), Numbers{2});
  EXPECT_EQ(writers.of(joined.column_slice(3, 2)), (Numbers{1, 2}));
}

}  // namespace
}  // namespace babelring
