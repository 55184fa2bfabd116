#include <algorithm>

#include "nmt/ops/cuda/cudnn_batches.h"
#include "tests/nmt/ops/op_fixture.h"

/// What the graphs given to cuDNN compute, on a library that does each operation by itself (fake_cudnn.cc).
namespace babelring::cuda {
namespace {

using Offsets = std::vector<std::int32_t>;

/// Attention of some sentences, its operands in the host's memory.
struct GraphCase {
  Offsets q_offsets, k_offsets, sentences;
  int heads;
  std::int64_t head_width;
  bool causal;
};

const GraphCase graph_cases[] = {
    {{0, 5, 6, 22, 31}, {0, 5, 6, 22, 31}, {0, 1, 2, 3}, 2, 8, true},
    {{0, 5, 6, 22, 31}, {0, 16, 17, 18, 31}, {0, 1, 2, 3}, 3, 16, false},
    {{0, 9, 9, 20, 31, 47}, {0, 9, 9, 20, 31, 47}, {0, 1, 3}, 1, 24, true},  // one is empty, others are not listed
};

class CudnnGraphs : public testing::TestWithParam<GraphCase> {
 protected:
  void SetUp() override {
    if (plans.description() != "cuDNN 9.19.0") GTEST_SKIP() << plans.description();
  }

  /// One of three column blocks of a matrix, so that rows are apart.
  Tensor rows_of(std::int64_t rows) { return tensors.strided(rows, width, DType::bf16); }

  AttentionForward forward() {
    const std::int64_t queries = of.q_offsets.back(), keys = of.k_offsets.back();
    return {.q = rows_of(queries),
            .k = rows_of(keys),
            .v = rows_of(keys),
            .q_offsets = tensors.list(of.q_offsets),
            .k_offsets = tensors.list(of.k_offsets),
            .heads = of.heads,
            .causal = of.causal,
            .scale = 0.3f,
            .out = tensors.normal({queries, width}, DType::bf16),
            .log_sum_exp = tensors.normal({queries, of.heads}, DType::f32)};
  }

  void bind(Packed tensor, const ConstTensor& rows) {
    shape.strides.of(tensor) = rows.row_stride;
    operands.rows.of(tensor) = const_cast<void*>(rows.data);
  }
  template <class Op>
  void bind_inputs(const Op& op) {
    operands.scale = op.scale;
    const std::pair<Packed, ConstTensor> rows[] = {{Packed::q, op.q},
                                                   {Packed::k, op.k},
                                                   {Packed::v, op.v},
                                                   {Packed::out, op.out},
                                                   {Packed::log_sum_exp, op.log_sum_exp}};
    for (const auto& [tensor, view] : rows) bind(tensor, view);
  }
  void run() {
    const auto batches = cudnn_batches(of.q_offsets, of.k_offsets, of.sentences, of.heads);
    ASSERT_EQ(batches.size(), 1U);
    const Offsets lists = cudnn_lists(shape, batches.front().members, of.q_offsets, of.k_offsets);
    const std::int32_t* list = lists.data();
    const std::int64_t pitch = cudnn_list_length(shape.sentences);
    for (const std::int32_t*& starts : operands.starts) {
      starts = list;
      list += pitch;
    }
    operands.query_lengths = list;
    operands.key_lengths = list + pitch;
    const Result<std::int64_t>& workspace_bytes = plans.workspace_bytes(shape);
    ASSERT_TRUE(workspace_bytes) << workspace_bytes.error();
    ASSERT_EQ(*workspace_bytes, 512 + (shape.backward ? shape.sentences * of.heads * shape.length * 4 : 0));
    std::vector<char> workspace(static_cast<std::size_t>(*workspace_bytes));
    operands.workspace = workspace.data();
    plans.run(shape, operands, nullptr);
  }

  /// Rows of listed sentences are the reference's, all others what they were.
  void expect_rows(const Tensor& found, const ConstTensor& truth, const ConstTensor& before, const Offsets& offsets) {
    for (std::int32_t s = 0; s + 1 < std::ssize(offsets); ++s) {
      const std::int64_t first = offsets[static_cast<std::size_t>(s)];
      const std::int64_t count = offsets[static_cast<std::size_t>(s) + 1] - first;
      const bool listed = std::find(of.sentences.begin(), of.sentences.end(), s) != of.sentences.end();
      const ConstTensor expected = (listed ? truth : before).row_slice(first, count);
      const double tolerance = !listed ? 0 : found.dtype == DType::bf16 ? 1e-2 : 3e-5;
      EXPECT_LE(relative_error(found.row_slice(first, count), expected), tolerance) << "sentence " << s;
    }
  }

  const GraphCase& of = GetParam();
  const std::int64_t width = of.heads * of.head_width;
  Tensors tensors;
  CudnnPlans plans{{.capability = 90}, BABELRING_FAKE_CUDNN};
  CudnnShape shape{.causal = of.causal, .sentences = 6, .length = 16, .heads = of.heads, .head_width = of.head_width};
  CudnnOperands operands;
};
INSTANTIATE_TEST_SUITE_P(Ragged, CudnnGraphs, testing::ValuesIn(graph_cases));

TEST_P(CudnnGraphs, ForwardIsTheReferences) {
  const AttentionForward op = forward();
  AttentionForward truth = op;
  truth.out = tensors.copy(op.out), truth.log_sum_exp = tensors.copy(op.log_sum_exp);
  const Tensor out_before = tensors.copy(op.out), sums_before = tensors.copy(op.log_sum_exp);
  make_reference_backend()->run(truth);
  bind_inputs(op);
  run();
  expect_rows(op.out, truth.out, out_before, of.q_offsets);
  expect_rows(op.log_sum_exp, truth.log_sum_exp, sums_before, of.q_offsets);
}

TEST_P(CudnnGraphs, BackwardIsTheReferences) {
  const AttentionForward op = forward();
  make_reference_backend()->run(op);
  const AttentionBackward gradient = gradient_of(op, tensors);
  AttentionBackward truth = gradient, before = gradient;
  for (Tensor AttentionBackward::*result : {&AttentionBackward::dq, &AttentionBackward::dk, &AttentionBackward::dv}) {
    truth.*result = tensors.copy(gradient.*result);
    before.*result = tensors.copy(gradient.*result);
  }
  make_reference_backend()->run(truth);
  shape.backward = true;
  bind_inputs(gradient);
  bind(Packed::dout, gradient.dout);
  bind(Packed::dq, gradient.dq);
  bind(Packed::dk, gradient.dk);
  bind(Packed::dv, gradient.dv);
  run();
  expect_rows(gradient.dq, truth.dq, before.dq, of.q_offsets);
  expect_rows(gradient.dk, truth.dk, before.dk, of.k_offsets);
  expect_rows(gradient.dv, truth.dv, before.dv, of.k_offsets);
}

}  // namespace
}  // namespace babelring::cuda
