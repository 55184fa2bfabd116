#include <cstdlib>

#include "nmt/ops/attention.h"
#include "tests/nmt/ops/op_fixture.h"

namespace babelring {
namespace {

/// A GPU whose attention goes by one route where that takes it; null, and `why` set, where cuDNN cannot run.
std::unique_ptr<Backend> backend_by_route(const char* route, std::string& why) {
  if (!find_cuda()) {
    why = "no GPU: " + find_cuda().error();
    return nullptr;
  }
  ::setenv("BABELRING_CUDA_ATTENTION", route, 1);
  std::unique_ptr<Backend> device = make_cuda_backend(0);
  ::unsetenv("BABELRING_CUDA_ATTENTION");
  const std::string description = device->description();
  if (description.find("no cuDNN") != std::string::npos) {
    why = description;
    return nullptr;
  }
  return make_staged_backend(std::move(device));
}

struct RaggedCase {
  std::vector<std::int32_t> q_offsets, k_offsets;
  int heads;
  std::int64_t head_width;
  bool causal;
};

/// Lengths of 0, of 1, around cuDNN's tiles, and the largest that a plan has room for.
const RaggedCase ragged_cases[] = {
    {{0, 1, 1, 513, 530, 1042, 1043}, {0, 1, 1, 513, 530, 1042, 1043}, 2, 64, true},
    {{0, 512, 513, 513, 640}, {0, 1, 513, 513, 514}, 2, 64, false},
    {{0, 127, 255, 384, 385}, {0, 127, 255, 384, 385}, 4, 32, true},
    {{0, 300, 301, 557}, {0, 129, 640, 641}, 1, 128, false},
};

class CudnnAttention : public testing::Test {
 protected:
  void SetUp() override {
    if (by_cudnn == nullptr || by_matmuls == nullptr) GTEST_SKIP() << why;
  }

  static AttentionForward forward_of(Tensors& tensors, const RaggedCase& of) {
    const std::int64_t width = of.heads * of.head_width, queries = of.q_offsets.back(), keys = of.k_offsets.back();
    return {.q = tensors.strided(queries, width, DType::bf16),
            .k = tensors.strided(keys, width, DType::bf16),
            .v = tensors.strided(keys, width, DType::bf16),
            .q_offsets = tensors.list(of.q_offsets),
            .k_offsets = tensors.list(of.k_offsets),
            .heads = of.heads,
            .causal = of.causal,
            .scale = 1 / std::sqrt(static_cast<float>(of.head_width)),
            .out = tensors.zeros({queries, width}, DType::bf16),
            .log_sum_exp = tensors.zeros({queries, of.heads}, DType::f32)};
  }

  /// Runs the op by cuDNN, twice, by matmuls and by the reference, and compares its results.
  template <class Op>
  void expect_agreement(const Op& op, std::initializer_list<Tensor Op::*> results) {
    const auto with_own_results = [&] {
      Op own = op;
      for (Tensor Op::*result : results) own.*result = tensors.copy(op.*result);
      return own;
    };
    Op again = with_own_results(), matmuls = with_own_results(), truth = with_own_results();
    by_cudnn->run(op);
    by_cudnn->run(again);
    by_matmuls->run(matmuls);
    reference->run(truth);
    bool differs_from_matmuls = false;
    for (Tensor Op::*result : results) {
      const Tensor found = tensors.copy(op.*result);
      const double tolerance = found.dtype == DType::bf16 ? 1e-2 : 3e-5;
      EXPECT_LE(relative_error(found, truth.*result), tolerance) << Op::name << " " << found.shape.text();
      EXPECT_LE(relative_error(matmuls.*result, truth.*result), tolerance) << Op::name << " " << found.shape.text();
      EXPECT_TRUE(same_bits(found, again.*result)) << Op::name << " does not repeat " << found.shape.text();
      differs_from_matmuls = differs_from_matmuls || !same_bits(found, matmuls.*result);
    }
    EXPECT_TRUE(differs_from_matmuls) << Op::name << ": cuDNN was asked for and matmuls ran";
  }

  std::string why;
  std::unique_ptr<Backend> by_cudnn = backend_by_route("cudnn", why), by_matmuls = backend_by_route("matmuls", why);
  std::unique_ptr<Backend> reference = make_reference_backend();
  Tensors tensors;
};

TEST_F(CudnnAttention, AgreesWithMatmulsAndReferenceOnRaggedBatches) {
  for (const RaggedCase& ragged : ragged_cases) {
    const AttentionForward op = forward_of(tensors, ragged);
    expect_agreement(op, {&AttentionForward::out, &AttentionForward::log_sum_exp});
    expect_agreement(gradient_of(op, tensors),
                     {&AttentionBackward::dq, &AttentionBackward::dk, &AttentionBackward::dv});
  }
}

/// What cuDNN does not take goes on by matmuls: dropout, f32, heads that are no multiple of 8 wide, missing keys.
TEST_F(CudnnAttention, LeavesTheRestToMatmuls) {
  const RaggedCase ragged{{0, 300, 310}, {0, 300, 310}, 2, 64, true};
  AttentionForward op = forward_of(tensors, ragged);
  op.key = {.key = 7, .probability = 0.1f};
  AttentionForward matmuls = op;
  matmuls.out = tensors.copy(op.out), matmuls.log_sum_exp = tensors.copy(op.log_sum_exp);
  by_cudnn->run(op);
  by_matmuls->run(matmuls);
  EXPECT_TRUE(same_bits(op.out, matmuls.out));
  const AttentionForward without_keys = forward_of(tensors, {{0, 3, 8}, {0, 0, 7}, 2, 32, false});
  const AttentionForward narrow = forward_of(tensors, {{0, 300}, {0, 300}, 2, 60, true});
  for (const AttentionForward& left : {without_keys, narrow}) {
    AttentionForward truth = left;
    truth.out = tensors.copy(left.out), truth.log_sum_exp = tensors.copy(left.log_sum_exp);
    by_cudnn->run(left);
    reference->run(truth);
    EXPECT_LE(relative_error(left.out, truth.out), 1e-2);
  }
}

}  // namespace
}  // namespace babelring
