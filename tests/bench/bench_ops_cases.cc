#include "tests/bench/bench_ops_cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "nmt/model/config.h"
#include "nmt/ops/ops.h"
#include "tests/bench/bench_tensors.h"
#include "tests/reference/matrix.h"
#include "tests/reference/reference_backend.h"

namespace babelring {

namespace {

double relative_error(const ConstTensor& found, const ConstTensor& expected) {
  const auto a = reference::load(found), b = reference::load(expected);
  double apart = 0, largest = 1e-30;
  for (std::size_t i = 0; i < a.values.size(); ++i) {
    const double difference = std::abs(a.values[i] - b.values[i]);
    if (std::isnan(difference)) return INFINITY;
    apart = std::max(apart, difference);
    largest = std::max(largest, std::abs(b.values[i]));
  }
  return apart / largest;
}

/// A case of ops made by `make(tensors, rows)`; `result` is compared with the reference, on 96 rows, or on 16
/// where its plain loops would take seconds.
template <class Make, class Op>
OpCase op_case(std::string what, std::int64_t rows, DType type, Make make, Tensor Op::* result) {
  OpCase one{fmt::format("{} {} {}", Op::name, name_of(type), what), type, {}, {}};
  one.prepare = [make, rows](Backend& backend) {
    const auto tensors = std::make_shared<BenchTensors>(backend);
    const Op op = make(*tensors, rows);
    const OpCost cost = cost_of(op);
    return PreparedOp{cost.flops, cost.bytes, [tensors, op] { tensors->backend().run(op); }};
  };
  one.error = [make, rows, result](Backend& tested) {
    const auto reference = make_reference_backend();
    BenchTensors probe(*reference), found_tensors(tested), expected_tensors(*reference);
    const bool slow = flops_of(make(probe, 16)) > 1e8;
    const std::int64_t few = std::min<std::int64_t>(rows, slow ? 16 : 96);
    const Op found = make(found_tensors, few), expected = make(expected_tensors, few);  // of the same seed
    tested.run(found);
    reference->run(expected);
    return relative_error(found.*result, expected.*result);
  };
  return one;
}

void add_linear(std::vector<OpCase>& cases, std::int64_t rows, std::int64_t in, std::int64_t out, DType type) {
  const std::string what = fmt::format("{}x{}x{}", rows, out, in);
  const auto forward = [=](BenchTensors& pool, std::int64_t n) {
    return LinearForward{.x = pool.uniform({n, in}, type),
                         .weight = pool.uniform({out, in}, type),
                         .bias = pool.uniform({out}, DType::f32),
                         .y = pool.make({n, out}, type)};
  };
  const auto data = [=](BenchTensors& pool, std::int64_t n) {
    return LinearBackwardData{
        .dy = pool.uniform({n, out}, type), .weight = pool.uniform({out, in}, type), .dx = pool.make({n, in}, type)};
  };
  const auto weight = [=](BenchTensors& pool, std::int64_t n) {
    return LinearBackwardWeight{.dy = pool.uniform({n, out}, type),
                                .x = pool.uniform({n, in}, type),
                                .dweight = pool.make({out, in}, DType::f32),
                                .dbias = pool.make({out}, DType::f32)};
  };
  cases.push_back(op_case(what, rows, type, forward, &LinearForward::y));
  const auto relu = [=](BenchTensors& pool, std::int64_t n) {
    LinearForward op = forward(pool, n);
    op.activation = Activation::relu;
    return op;
  };
  const auto through_relu = [=](BenchTensors& pool, std::int64_t n) {
    LinearBackwardData op = data(pool, n);
    op.gate = pool.uniform({n, in}, type), op.gate_scale = 1.1f;
    return op;
  };
  const auto with_bias = [=](BenchTensors& pool, std::int64_t n) {
    LinearBackwardData op = through_relu(pool, n);
    op.dbias = pool.make({in}, DType::f32);
    return op;
  };
  cases.push_back(op_case(what + " and ReLU", rows, type, relu, &LinearForward::y));
  cases.push_back(op_case(what, rows, type, data, &LinearBackwardData::dx));
  cases.push_back(op_case(what + " through ReLU", rows, type, through_relu, &LinearBackwardData::dx));
  cases.push_back(op_case(what + " through ReLU with bias", rows, type, with_bias, &LinearBackwardData::dbias));
  cases.push_back(op_case(what, rows, type, weight, &LinearBackwardWeight::dweight));
}

/// `mean`: tokens of a sentence.
void add_attention(std::vector<OpCase>& cases, std::int64_t rows, int heads, std::int64_t head_width, std::int64_t mean,
                   DType type) {
  const std::int64_t width = heads * head_width;
  const std::string what = fmt::format("{} tokens, sentences of {}, {} heads of {}", rows, mean, heads, head_width);
  const auto forward = [=](BenchTensors& pool, std::int64_t n) {
    const Tensor qkv = pool.uniform({n, 3 * width}, type), offsets = pool.offsets(n, mean);
    return AttentionForward{.q = qkv.column_slice(0, width),
                            .k = qkv.column_slice(width, width),
                            .v = qkv.column_slice(2 * width, width),
                            .q_offsets = offsets,
                            .k_offsets = offsets,
                            .heads = heads,
                            .scale = 1 / std::sqrt(static_cast<float>(head_width)),
                            .key = {.key = 1, .probability = 0.1f},
                            .out = pool.make({n, width}, type),
                            .log_sum_exp = pool.make({n, heads}, DType::f32)};
  };
  const auto backward = [=](BenchTensors& pool, std::int64_t n) {
    const AttentionForward op = forward(pool, n);
    pool.backend().run(op);
    const Tensor gradient = pool.make({n, 3 * width}, type);
    return AttentionBackward{.dout = pool.uniform({n, width}, type),
                             .out = op.out,
                             .q = op.q,
                             .k = op.k,
                             .v = op.v,
                             .q_offsets = op.q_offsets,
                             .k_offsets = op.k_offsets,
                             .log_sum_exp = op.log_sum_exp,
                             .heads = heads,
                             .scale = op.scale,
                             .key = op.key,
                             .dq = gradient.column_slice(0, width),
                             .dk = gradient.column_slice(width, width),
                             .dv = gradient.column_slice(2 * width, width)};
  };
  const auto guided = [=](BenchTensors& pool, std::int64_t n) {
    const AttentionForward op = forward(pool, n);
    pool.backend().run(op);
    std::vector<std::int32_t> links(static_cast<std::size_t>(n)), link_offsets(static_cast<std::size_t>(n) + 1);
    std::iota(link_offsets.begin(), link_offsets.end(), 0);
    const Tensor gradient = pool.make({n, 2 * width}, type);
    return GuidedAttention{.q = op.q,
                           .k = op.k,
                           .q_offsets = op.q_offsets,
                           .k_offsets = op.k_offsets,
                           .link_offsets = pool.host_list(link_offsets),
                           .links = pool.host_list(links),
                           .log_sum_exp = op.log_sum_exp,
                           .heads = heads,
                           .scale = op.scale,
                           .dq = gradient.column_slice(0, width),
                           .dk = gradient.column_slice(width, width),
                           .loss = pool.make({n}, DType::f32)};
  };
  cases.push_back(op_case(what, rows, type, forward, &AttentionForward::out));
  cases.push_back(op_case(what, rows, type, backward, &AttentionBackward::dq));
  cases.push_back(op_case(what, rows, type, guided, &GuidedAttention::dq));
}

/// One step of hypotheses over cached keys, one after another or listed.
void add_decoding(std::vector<OpCase>& cases, std::int64_t rows, int heads, std::int64_t head_width, DType type) {
  constexpr std::int32_t keys = 30;
  const std::int64_t width = heads * head_width;
  const std::string what = fmt::format("{} rows of {} keys, {} heads of {}", rows, keys, heads, head_width);
  const auto listed = [=](BenchTensors& pool, std::int64_t n) {
    const Tensor cache = pool.uniform({n * keys, 2 * width}, type);
    return DecodeAttention{
        .q = pool.uniform({n, width}, type),
        .keys = cache.column_slice(0, width),
        .values = cache.column_slice(width, width),
        .key_rows = pool.host_integers({n, keys}, n * keys),
        .key_count = pool.host_list(std::vector<std::int32_t>(static_cast<std::size_t>(n), std::int32_t{keys})),
        .heads = heads,
        .scale = 1 / std::sqrt(static_cast<float>(head_width)),
        .out = pool.make({n, width}, type)};
  };
  const auto in_turn = [=](BenchTensors& pool, std::int64_t n) {
    DecodeAttention op = listed(pool, n);
    std::vector<std::int32_t> begin;
    for (std::int64_t row = 0; row < n; ++row) begin.push_back(static_cast<std::int32_t>(row * keys));
    op.key_begin = pool.host_list(begin), op.key_rows = {};
    return op;
  };
  cases.push_back(op_case(what, rows, type, in_turn, &DecodeAttention::out));
  cases.push_back(op_case(what + ", listed", rows, type, listed, &DecodeAttention::out));
}

void add_norms(std::vector<OpCase>& cases, std::int64_t rows, std::int64_t width, DType type) {
  const std::string what = fmt::format("{}x{}", rows, width);
  const DropoutKey key{.key = 1, .probability = 0.1f};
  const auto norm = [=](BenchTensors& pool, std::int64_t n) {
    return LayerNormForward{.x = pool.uniform({n, width}, type),
                            .gain = pool.uniform({width}, DType::f32),
                            .bias = pool.uniform({width}, DType::f32),
                            .y = pool.make({n, width}, type),
                            .mean = pool.make({n}, DType::f32),
                            .rstd = pool.make({n}, DType::f32)};
  };
  const auto norm_backward = [=](BenchTensors& pool, std::int64_t n) {
    return LayerNormBackward{.dy = pool.uniform({n, width}, type),
                             .x = pool.uniform({n, width}, type),
                             .gain = pool.uniform({width}, DType::f32),
                             .mean = pool.uniform({n}, DType::f32),
                             .rstd = pool.uniform({n}, DType::f32),
                             .dx = pool.make({n, width}, type),
                             .dgain = pool.make({width}, DType::f32),
                             .dbias = pool.make({width}, DType::f32)};
  };
  const auto residual_norm = [=](BenchTensors& pool, std::int64_t n) {
    return ResidualNormForward{.residual = pool.uniform({n, width}, type),
                               .branch = pool.uniform({n, width}, type),
                               .key = key,
                               .gain = pool.uniform({width}, DType::f32),
                               .bias = pool.uniform({width}, DType::f32),
                               .sum = pool.make({n, width}, type),
                               .y = pool.make({n, width}, type),
                               .mean = pool.make({n}, DType::f32),
                               .rstd = pool.make({n}, DType::f32)};
  };
  const auto residual_norm_backward = [=](BenchTensors& pool, std::int64_t n) {
    LayerNormBackward op = norm_backward(pool, n);
    op.dbranch = pool.make({n, width}, type), op.key = key;
    return op;
  };
  const auto branch_bias = [=](BenchTensors& pool, std::int64_t n) {
    LayerNormBackward op = residual_norm_backward(pool, n);
    op.dbranch_bias = pool.make({width}, DType::f32);
    return op;
  };
  cases.push_back(op_case(what, rows, type, norm, &LayerNormForward::y));
  cases.push_back(op_case(what, rows, type, norm_backward, &LayerNormBackward::dx));
  cases.push_back(op_case(what, rows, type, residual_norm, &ResidualNormForward::y));
  cases.push_back(op_case(what + " with its branch", rows, type, residual_norm_backward, &LayerNormBackward::dbranch));
  cases.push_back(
      op_case(what + " with its branch and bias", rows, type, branch_bias, &LayerNormBackward::dbranch_bias));
}

void add_row_ops(std::vector<OpCase>& cases, std::int64_t rows, std::int64_t width, std::int64_t vocabulary,
                 DType type) {
  const std::string what = fmt::format("{}x{}", rows, width);
  const DropoutKey key{.key = 1, .probability = 0.1f};
  const auto dropout = [=](BenchTensors& pool, std::int64_t n) {
    return Dropout{.x = pool.uniform({n, width}, type), .y = pool.make({n, width}, type), .key = key};
  };
  const auto residual = [=](BenchTensors& pool, std::int64_t n) {
    return ResidualDropout{.residual = pool.uniform({n, width}, type),
                           .branch = pool.uniform({n, width}, type),
                           .y = pool.make({n, width}, type),
                           .key = key};
  };
  const auto swish = [=](BenchTensors& pool, std::int64_t n) {
    return ActivationForward{.z = pool.uniform({n, width}, type), .y = pool.make({n, width}, type), .key = key};
  };
  const auto gelu = [=](BenchTensors& pool, std::int64_t n) {
    ActivationForward op = swish(pool, n);
    op.activation = Activation::gelu;
    return op;
  };
  const auto gelu_backward = [=](BenchTensors& pool, std::int64_t n) {
    return ActivationBackward{.dy = pool.uniform({n, width}, type),
                              .z = pool.uniform({n, width}, type),
                              .dz = pool.make({n, width}, type),
                              .activation = Activation::gelu,
                              .key = key};
  };
  const auto embedding = [=](BenchTensors& pool, std::int64_t n) {
    return EmbeddingForward{.ids = pool.text_ids(n, vocabulary),
                            .positions = pool.integers(n, 40),
                            .table = pool.uniform({vocabulary, width}, type),
                            .y = pool.make({n, width}, type),
                            .scale = 8,
                            .key = key};
  };
  const auto embedding_backward = [=](BenchTensors& pool, std::int64_t n) {
    return EmbeddingBackward{.ids = pool.text_ids(n, vocabulary),
                             .dy = pool.uniform({n, width}, type),
                             .dtable = pool.make({vocabulary, width}, DType::f32),
                             .scale = 8,
                             .key = key};
  };
  cases.push_back(op_case(what, rows, type, dropout, &Dropout::y));
  cases.push_back(op_case(what, rows, type, residual, &ResidualDropout::y));
  cases.push_back(op_case(what + " swish", rows, type, swish, &ActivationForward::y));
  cases.push_back(op_case(what + " GELU", rows, type, gelu, &ActivationForward::y));
  cases.push_back(op_case(what + " GELU", rows, type, gelu_backward, &ActivationBackward::dz));
  cases.push_back(op_case(what, rows, type, embedding, &EmbeddingForward::y));
  cases.push_back(op_case(what, rows, type, embedding_backward, &EmbeddingBackward::dtable));
}

void add_losses(std::vector<OpCase>& cases, std::int64_t rows, std::int64_t vocabulary, DType type) {
  const std::string what = fmt::format("{}x{}", rows, vocabulary);
  const auto loss = [=](BenchTensors& pool, std::int64_t n) {
    return CrossEntropy{.logits = pool.uniform({n, vocabulary}, type),
                        .targets = pool.integers(n, vocabulary),
                        .smoothing = 0.1f,
                        .dlogits = pool.make({n, vocabulary}, type),
                        .loss = pool.make({n}, DType::f32),
                        .nll = pool.make({n}, DType::f32),
                        .correct = pool.make({n}, DType::f32)};
  };
  const auto divergence = [=](BenchTensors& pool, std::int64_t n) {
    return SymmetricDivergence{.first = pool.uniform({n, vocabulary}, type),
                               .second = pool.uniform({n, vocabulary}, type),
                               .targets = pool.integers(n, vocabulary),
                               .dfirst = pool.make({n, vocabulary}, type),
                               .dsecond = pool.make({n, vocabulary}, type),
                               .loss = pool.make({n}, DType::f32)};
  };
  const auto top_k = [=](BenchTensors& pool, std::int64_t n) {
    return LogSoftmaxTopK{.logits = pool.uniform({n, vocabulary}, type),
                          .scores = pool.make({n, 5}, DType::f32),
                          .indices = pool.make({n, 5}, DType::i32)};
  };
  cases.push_back(op_case(what, rows, type, loss, &CrossEntropy::dlogits));
  cases.push_back(op_case(what, rows, type, divergence, &SymmetricDivergence::loss));
  cases.push_back(op_case(what, rows, type, top_k, &LogSoftmaxTopK::scores));
}

void add_optimizer(std::vector<OpCase>& cases, std::int64_t count) {
  const auto adam = [=](BenchTensors& pool, std::int64_t n) {
    return AdamUpdate{.master = pool.uniform({n}, DType::f32),
                      .gradient = pool.uniform({n}, DType::f32),
                      .m = pool.make({n}, DType::f32),
                      .v = pool.make({n}, DType::f32),
                      .compute = pool.make({n}, DType::bf16),
                      .learning_rate = 1e-3f};
  };
  const auto norm = [=](BenchTensors& pool, std::int64_t n) {
    return SquaredNorm{.x = pool.uniform({n}, DType::f32), .sums = pool.make({SquaredNorm::blocks(n)}, DType::f32)};
  };
  const auto sum = [=](BenchTensors& pool, std::int64_t n) {
    return SumWithNorm{.parts = {pool.uniform({n}, DType::f32), pool.uniform({n}, DType::f32)},
                       .sum = pool.make({n}, DType::f32),
                       .norms = pool.make({SquaredNorm::blocks(n)}, DType::f32)};
  };
  const std::string what = fmt::format("{}", count);
  cases.push_back(op_case(what + " of two ranks", count, DType::f32, sum, &SumWithNorm::norms));
  cases.push_back(op_case(what, count, DType::f32, adam, &AdamUpdate::master));
  cases.push_back(op_case(what, count, DType::f32, norm, &SquaredNorm::sums));
}

}  // namespace

std::vector<OpCase> op_cases(const std::string& preset, std::int64_t tokens) {
  const ModelConfig model = model_preset("transformer-" + preset);
  const std::int64_t width = model.width, inner = model.inner, vocabulary = preset == "tiny" ? 10000 : 32000;
  std::vector<OpCase> cases;
  for (const DType type : {DType::bf16, DType::f32}) {
    for (const auto& [in, out] : {std::pair{width, width}, {width, 3 * width}, {width, inner}, {inner, width}}) {
      add_linear(cases, tokens, in, out, type);
    }
    add_linear(cases, tokens / 4, width, vocabulary, type);
    for (const std::int64_t mean : {30, 8, 100, 200, 512, 2048}) {
      add_attention(cases, tokens, model.heads, width / model.heads, mean, type);
    }
    add_decoding(cases, tokens / 8, model.heads, width / model.heads, type);
    add_norms(cases, tokens, width, type);
    add_row_ops(cases, tokens, width, vocabulary, type);
    add_losses(cases, tokens / 4, vocabulary, type);
  }
  add_optimizer(cases, 10'000'000);
  return cases;
}

}  // namespace babelring
