#include "lab/probe/probe_recorder.h"

#include <gtest/gtest.h>

#include "tests/nmt/ops/op_fixture.h"

namespace babelring {
namespace {

using Numbers = std::set<std::int64_t>;

Origin record(std::int64_t number) {
  return {.records = {number}};
}

Numbers records_of(const Writers& writers, const ConstTensor& tensor) {
  return writers.of(tensor).value_or(Origin()).records;
}

TEST(Writers, NameTheLastWriterOfEachByte) {
  Tensors tensors;
  const Tensor x = tensors.zeros({8}, DType::f32), rest = tensors.zeros({8}, DType::f32);
  Writers writers;
  EXPECT_FALSE(writers.of(x));
  writers.wrote(x, record(0));
  EXPECT_EQ(writers.of(x), record(0));
  writers.wrote(x.row_slice(2, 3), record(1));
  EXPECT_EQ(records_of(writers, x), (Numbers{0, 1}));
  EXPECT_EQ(records_of(writers, x.row_slice(0, 2)), Numbers{0});
  EXPECT_EQ(records_of(writers, x.row_slice(3, 1)), Numbers{1});
  EXPECT_EQ(records_of(writers, x.row_slice(5, 3)), Numbers{0});
  writers.wrote(x, record(2));
  EXPECT_EQ(records_of(writers, x), Numbers{2}) << "what is overwritten is forgotten";
  EXPECT_FALSE(writers.of(rest));
}

TEST(Writers, ForgetMemoryThatIsUsedAnew) {
  Tensors tensors;
  const Tensor x = tensors.zeros({8}, DType::f32), y = tensors.zeros({8}, DType::f32);
  Writers writers;
  writers.wrote(x, record(3));
  writers.wrote(y, {});
  EXPECT_EQ(writers.of(y), Origin()) << "written, but by no record";
  writers.forget_unless([&](const void* address) { return address == x.data; });
  EXPECT_EQ(records_of(writers, x), Numbers{3});
  EXPECT_FALSE(writers.of(y));
}

TEST(Writers, FollowColumnsOfAMatrix) {
  Tensors tensors;
  const Tensor joined = tensors.zeros({5, 12}, DType::bf16);
  Writers writers;
  writers.wrote(joined, record(0));
  for (int part = 0; part < 3; ++part) writers.wrote(joined.column_slice(4 * part, 4), record(part + 1));
  EXPECT_EQ(records_of(writers, joined), (Numbers{1, 2, 3})) << "nothing of the first writer is left";
  EXPECT_EQ(records_of(writers, joined.column_slice(4, 4)), Numbers{2});
  EXPECT_EQ(records_of(writers, joined.column_slice(3, 2)), (Numbers{1, 2}));
}

TEST(Writers, JoinTheOriginsOfParts) {
  Tensors tensors;
  const Tensor x = tensors.zeros({8}, DType::f32);
  Writers writers;
  writers.wrote(x.row_slice(0, 4), {.records = {4, 7}, .left_out = true});
  writers.wrote(x.row_slice(4, 4), record(5));
  EXPECT_EQ(writers.of(x), (Origin{.records = {4, 5, 7}, .left_out = true}));
  EXPECT_EQ(writers.of(x.row_slice(4, 2)), record(5));
}

}  // namespace

}  // namespace babelring
