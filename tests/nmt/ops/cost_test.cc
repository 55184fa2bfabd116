// The least work that ops report: matmuls and bytes.
#include <map>
#include <string>

#include "nmt/ops/adam.h"
#include "nmt/ops/elementwise.h"
#include "tests/nmt/ops/op_fixture.h"

namespace babelring {
namespace {

struct CostLog : OpObserver {
  std::map<std::string, OpCost, std::less<>> seen;
  Watch watch() const override { return Watch::order; }
  void ran(const OpRun& run) override { seen[std::string(run.op)] = run.cost; }
};

TEST(OpCostTest, ObserverSeesMatmulsAndBytes) {
  Tensors tensors;
  CostLog log;
  const auto backend = make_reference_backend();
  backend->observe(&log);
  const Tensor x = tensors.normal({3, 5}, DType::bf16), dy = tensors.normal({3, 2}, DType::bf16);
  backend->run(LinearBackwardWeight{
      .dy = dy, .x = x, .dweight = tensors.zeros({2, 5}, DType::f32), .dbias = tensors.zeros({2}, DType::f32)});
  backend->run(Add{.x = x, .y = tensors.zeros({3, 5}, DType::bf16)});
  // Read once: dy and x of 2 bytes; read and written: dweight and dbias of 4.
  EXPECT_EQ(log.seen["linear_backward_weight"].flops, 2 * 3 * 5 * 2);
  EXPECT_EQ(log.seen["linear_backward_weight"].bytes, 2 * (3 * 2 + 3 * 5) + 8 * (2 * 5 + 2));
  EXPECT_EQ(log.seen["add"].flops, 0);
  EXPECT_EQ(log.seen["add"].bytes, 3 * 2 * 3 * 5);
}

TEST(OpCostTest, DecodingReadsTheKeysOfEachRow) {
  Tensors tensors;
  const Tensor cache = tensors.normal({10, 4}, DType::f32), q = tensors.normal({2, 4}, DType::f32);
  const std::vector<std::int32_t> begin = {0, 5}, count = {5, 3};
  const DecodeAttention op{.q = q,
                           .keys = cache,
                           .values = cache,
                           .key_begin = tensors.list(begin),
                           .key_count = tensors.list(count),
                           .out = tensors.zeros({2, 4}, DType::f32)};
  EXPECT_EQ(op.bytes(), 2 * 4 * 4 * (1 + 1) + 2 * 2 * 4 + 2 * (5 + 3) * 4 * 4);
}

TEST(OpCostTest, ASumReadsEachPartAndWritesTheSum) {
  Tensors tensors;
  const Tensor part = tensors.normal({20'000}, DType::f32), norms = tensors.zeros({2}, DType::f32);
  const SumWithNorm op{.parts = {part, part, part}, .sum = tensors.zeros({20'000}, DType::f32), .norms = norms};
  EXPECT_EQ(cost_of(op).bytes, 4 * 20'000 * (3 + 1) + 4 * 2);
}

}  // namespace
}  // namespace babelring
