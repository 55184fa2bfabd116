#include "tests/bench/bench_ops_cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tests/reference/matrix.h"
#include "tests/reference/reference_backend.h"

namespace babelring {

namespace {

/// Tensors of one case.
class Pool {
 public:
  Tensor make(Shape shape, DType type) {
    buffers_.push_back(allocate_host(static_cast<std::size_t>(std::max<std::int64_t>(shape.elements(), 1)) * 4));
    return buffers_.back().view(shape, type);
  }
  Tensor normal(Shape shape, DType type) {
    const Tensor tensor = make(shape, type);
    for (std::int64_t i = 0; i < shape.elements(); ++i) {
      const auto value = static_cast<float>(2 * random_.uniform() - 1);
      type == DType::bf16 ? void(tensor.as<BFloat16>()[i] = BFloat16(value)) : void(tensor.as<float>()[i] = value);
    }
    return tensor;
  }
  Tensor integers(std::int64_t count, std::int64_t bound) {
    const Tensor tensor = make({count}, DType::i32);
    std::generate_n(tensor.as<std::int32_t>(), count,
                    [&] { return static_cast<std::int32_t>(random_.below(static_cast<std::uint64_t>(bound))); });
    return tensor;
  }
  /// Sentences of 20 to 40 tokens, `rows` in all.
  Tensor offsets(std::int64_t rows) {
    std::vector<std::int32_t> places = {0};
    while (places.back() < rows) {
      const auto length = static_cast<std::int64_t>(20 + random_.below(21));
      places.push_back(static_cast<std::int32_t>(std::min(rows, places.back() + length)));
    }
    const Tensor tensor = make({static_cast<std::int64_t>(places.size())}, DType::i32);
    std::copy(places.begin(), places.end(), tensor.as<std::int32_t>());
    return tensor;
  }

 private:
  Random random_{7};
  std::vector<Buffer> buffers_;
};

double relative_error(const ConstTensor& found, const ConstTensor& expected) {
  const auto a = reference::load(found), b = reference::load(expected);
  double apart = 0, largest = 1e-30;
  for (std::size_t i = 0; i < a.values.size(); ++i) {
    apart = std::max(apart, std::abs(a.values[i] - b.values[i]));
    largest = std::max(largest, std::abs(b.values[i]));
  }
  return apart / largest;
}

/// A case of ops made by `make(pool, rows)`; `result` is what is compared with the reference, on at most 96 rows.
template <class Make, class Op>
OpCase op_case(std::string what, std::int64_t rows, DType type, Make make, Tensor Op::*result) {
  const auto pool = std::make_shared<Pool>();
  const Op op = make(*pool, rows);
  OpCase one{fmt::format("{} {} {}", Op::name, name_of(type), what), op.flops(), op.bytes(), type, {}, {}};
  one.run = [pool, op](Backend& backend) { backend.run(op); };
  one.error = [make, rows, result] {
    Pool found_pool, expected_pool;  // the same seed: the same values
    const Op found = make(found_pool, std::min<std::int64_t>(rows, 96));
    const Op expected = make(expected_pool, std::min<std::int64_t>(rows, 96));
    make_cpu_backend()->run(found);
    make_reference_backend()->run(expected);
    return relative_error(found.*result, expected.*result);
  };
  return one;
}

void add_linear(std::vector<OpCase>& cases, std::int64_t rows, std::int64_t in, std::int64_t out, DType type) {
  const std::string what = fmt::format("{}x{}x{}", rows, out, in);
  const auto forward = [=](Pool& pool, std::int64_t n) {
    return LinearForward{.x = pool.normal({n, in}, type),
                         .weight = pool.normal({out, in}, type),
                         .bias = pool.normal({out}, DType::f32),
                         .y = pool.make({n, out}, type)};
  };
  const auto data = [=](Pool& pool, std::int64_t n) {
    return LinearBackwardData{
        .dy = pool.normal({n, out}, type), .weight = pool.normal({out, in}, type), .dx = pool.make({n, in}, type)};
  };
  const auto weight = [=](Pool& pool, std::int64_t n) {
    return LinearBackwardWeight{.dy = pool.normal({n, out}, type),
                                .x = pool.normal({n, in}, type),
                                .dweight = pool.make({out, in}, DType::f32),
                                .dbias = pool.make({out}, DType::f32)};
  };
  cases.push_back(op_case(what, rows, type, forward, &LinearForward::y));
  const auto relu = [=](Pool& pool, std::int64_t n) {
    LinearForward op = forward(pool, n);
    op.activation = Activation::relu;
    return op;
  };
  const auto through_relu = [=](Pool& pool, std::int64_t n) {
    LinearBackwardData op = data(pool, n);
    op.gate = pool.normal({n, in}, type), op.gate_scale = 1.1f;
    return op;
  };
  cases.push_back(op_case(what + " and ReLU", rows, type, relu, &LinearForward::y));
  cases.push_back(op_case(what, rows, type, data, &LinearBackwardData::dx));
  cases.push_back(op_case(what + " through ReLU", rows, type, through_relu, &LinearBackwardData::dx));
  cases.push_back(op_case(what, rows, type, weight, &LinearBackwardWeight::dweight));
}

void add_attention(std::vector<OpCase>& cases, std::int64_t rows, int heads, std::int64_t head_width, DType type) {
  const std::int64_t width = heads * head_width;
  const std::string what = fmt::format("{} tokens, {} heads of {}", rows, heads, head_width);
  const auto forward = [=](Pool& pool, std::int64_t n) {
    const Tensor qkv = pool.normal({n, 3 * width}, type), offsets = pool.offsets(n);
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
  const auto backward = [=](Pool& pool, std::int64_t n) {
    const AttentionForward op = forward(pool, n);
    make_cpu_backend()->run(op);
    const Tensor gradient = pool.make({n, 3 * width}, type);
    return AttentionBackward{.dout = pool.normal({n, width}, type),
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
  cases.push_back(op_case(what, rows, type, forward, &AttentionForward::out));
  cases.push_back(op_case(what, rows, type, backward, &AttentionBackward::dq));
}

/// One step of hypotheses over cached keys, one after another or listed.
void add_decoding(std::vector<OpCase>& cases, std::int64_t rows, int heads, std::int64_t head_width, DType type) {
  constexpr std::int64_t keys = 30;
  const std::int64_t width = heads * head_width;
  const std::string what = fmt::format("{} rows of {} keys, {} heads of {}", rows, keys, heads, head_width);
  const auto listed = [=](Pool& pool, std::int64_t n) {
    const Tensor cache = pool.normal({n * keys, 2 * width}, type);
    const Tensor count = pool.make({n}, DType::i32);
    std::fill_n(count.as<std::int32_t>(), n, static_cast<std::int32_t>(keys));
    return DecodeAttention{.q = pool.normal({n, width}, type),
                           .keys = cache.column_slice(0, width),
                           .values = cache.column_slice(width, width),
                           .key_rows = Tensor(pool.integers(n * keys, n * keys).data, {n, keys}, DType::i32),
                           .key_count = count,
                           .heads = heads,
                           .scale = 1 / std::sqrt(static_cast<float>(head_width)),
                           .out = pool.make({n, width}, type)};
  };
  const auto in_turn = [=](Pool& pool, std::int64_t n) {
    DecodeAttention op = listed(pool, n);
    const Tensor begin = pool.make({n}, DType::i32);
    for (std::int64_t row = 0; row < n; ++row) begin.as<std::int32_t>()[row] = static_cast<std::int32_t>(row * keys);
    op.key_begin = begin, op.key_rows = {};
    return op;
  };
  cases.push_back(op_case(what, rows, type, in_turn, &DecodeAttention::out));
  cases.push_back(op_case(what + ", listed", rows, type, listed, &DecodeAttention::out));
}

void add_norms(std::vector<OpCase>& cases, std::int64_t rows, std::int64_t width, DType type) {
  const std::string what = fmt::format("{}x{}", rows, width);
  const DropoutKey key{.key = 1, .probability = 0.1f};
  const auto norm = [=](Pool& pool, std::int64_t n) {
    return LayerNormForward{.x = pool.normal({n, width}, type),
                            .gain = pool.normal({width}, DType::f32),
                            .bias = pool.normal({width}, DType::f32),
                            .y = pool.make({n, width}, type),
                            .mean = pool.make({n}, DType::f32),
                            .rstd = pool.make({n}, DType::f32)};
  };
  const auto norm_backward = [=](Pool& pool, std::int64_t n) {
    return LayerNormBackward{.dy = pool.normal({n, width}, type),
                             .x = pool.normal({n, width}, type),
                             .gain = pool.normal({width}, DType::f32),
                             .mean = pool.normal({n}, DType::f32),
                             .rstd = pool.normal({n}, DType::f32),
                             .dx = pool.make({n, width}, type),
                             .dgain = pool.make({width}, DType::f32),
                             .dbias = pool.make({width}, DType::f32)};
  };
  const auto residual_norm = [=](Pool& pool, std::int64_t n) {
    return ResidualNormForward{.residual = pool.normal({n, width}, type),
                               .branch = pool.normal({n, width}, type),
                               .key = key,
                               .gain = pool.normal({width}, DType::f32),
                               .bias = pool.normal({width}, DType::f32),
                               .sum = pool.make({n, width}, type),
                               .y = pool.make({n, width}, type),
                               .mean = pool.make({n}, DType::f32),
                               .rstd = pool.make({n}, DType::f32)};
  };
  const auto residual_norm_backward = [=](Pool& pool, std::int64_t n) {
    LayerNormBackward op = norm_backward(pool, n);
    op.dbranch = pool.make({n, width}, type), op.key = key;
    return op;
  };
  cases.push_back(op_case(what, rows, type, norm, &LayerNormForward::y));
  cases.push_back(op_case(what, rows, type, norm_backward, &LayerNormBackward::dx));
  cases.push_back(op_case(what, rows, type, residual_norm, &ResidualNormForward::y));
  cases.push_back(op_case(what + " with its branch", rows, type, residual_norm_backward, &LayerNormBackward::dbranch));
}

void add_row_ops(std::vector<OpCase>& cases, std::int64_t rows, std::int64_t width, DType type) {
  const std::string what = fmt::format("{}x{}", rows, width);
  const DropoutKey key{.key = 1, .probability = 0.1f};
  const auto dropout = [=](Pool& pool, std::int64_t n) {
    return Dropout{.x = pool.normal({n, width}, type), .y = pool.make({n, width}, type), .key = key};
  };
  const auto residual = [=](Pool& pool, std::int64_t n) {
    return ResidualDropout{.residual = pool.normal({n, width}, type),
                           .branch = pool.normal({n, width}, type),
                           .y = pool.make({n, width}, type),
                           .key = key};
  };
  const auto embedding = [=](Pool& pool, std::int64_t n) {
    return EmbeddingForward{.ids = pool.integers(n, 10000),
                            .positions = pool.integers(n, 40),
                            .table = pool.normal({10000, width}, type),
                            .y = pool.make({n, width}, type),
                            .scale = 8,
                            .key = key};
  };
  const auto embedding_backward = [=](Pool& pool, std::int64_t n) {
    return EmbeddingBackward{.ids = pool.integers(n, 10000),
                             .dy = pool.normal({n, width}, type),
                             .dtable = pool.make({10000, width}, DType::f32),
                             .scale = 8,
                             .key = key};
  };
  cases.push_back(op_case(what, rows, type, dropout, &Dropout::y));
  cases.push_back(op_case(what, rows, type, residual, &ResidualDropout::y));
  cases.push_back(op_case(what, rows, type, embedding, &EmbeddingForward::y));
  cases.push_back(op_case(what, rows, type, embedding_backward, &EmbeddingBackward::dtable));
}

void add_losses(std::vector<OpCase>& cases, std::int64_t rows, std::int64_t vocabulary, DType type) {
  const std::string what = fmt::format("{}x{}", rows, vocabulary);
  const auto loss = [=](Pool& pool, std::int64_t n) {
    return CrossEntropy{.logits = pool.normal({n, vocabulary}, type),
                        .targets = pool.integers(n, vocabulary),
                        .smoothing = 0.1f,
                        .dlogits = pool.make({n, vocabulary}, type),
                        .loss = pool.make({n}, DType::f32),
                        .nll = pool.make({n}, DType::f32),
                        .correct = pool.make({n}, DType::f32)};
  };
  const auto top_k = [=](Pool& pool, std::int64_t n) {
    return LogSoftmaxTopK{.logits = pool.normal({n, vocabulary}, type),
                          .scores = pool.make({n, 5}, DType::f32),
                          .indices = pool.make({n, 5}, DType::i32)};
  };
  cases.push_back(op_case(what, rows, type, loss, &CrossEntropy::dlogits));
  cases.push_back(op_case(what, rows, type, top_k, &LogSoftmaxTopK::scores));
}

void add_optimizer(std::vector<OpCase>& cases, std::int64_t count) {
  const auto adam = [=](Pool& pool, std::int64_t n) {
    return AdamUpdate{.master = pool.normal({n}, DType::f32),
                      .gradient = pool.normal({n}, DType::f32),
                      .m = pool.make({n}, DType::f32),
                      .v = pool.make({n}, DType::f32),
                      .compute = pool.make({n}, DType::bf16),
                      .learning_rate = 1e-3f};
  };
  const auto norm = [=](Pool& pool, std::int64_t n) {
    return SquaredNorm{.x = pool.normal({n}, DType::f32), .sums = pool.make({SquaredNorm::blocks(n)}, DType::f32)};
  };
  const auto sum = [=](Pool& pool, std::int64_t n) {
    return SumWithNorm{.parts = {pool.normal({n}, DType::f32), pool.normal({n}, DType::f32)},
                       .sum = pool.make({n}, DType::f32),
                       .norms = pool.make({SquaredNorm::blocks(n)}, DType::f32)};
  };
  const std::string what = fmt::format("{}", count);
  cases.push_back(op_case(what + " of two ranks", count, DType::f32, sum, &SumWithNorm::norms));
  cases.push_back(op_case(what, count, DType::f32, adam, &AdamUpdate::master));
  cases.push_back(op_case(what, count, DType::f32, norm, &SquaredNorm::sums));
}

}  // namespace

std::vector<OpCase> op_cases(std::int64_t tokens) {
  std::vector<OpCase> cases;
  for (const DType type : {DType::f32, DType::bf16}) {
    for (const auto& [in, out] :
         {std::pair{512, 512}, {512, 1536}, {512, 2048}, {2048, 512}, {512, 10000}, {128, 128}, {128, 256}}) {
      add_linear(cases, tokens, in, out, type);
    }
    add_attention(cases, tokens, 8, 64, type);
    add_attention(cases, tokens, 4, 32, type);
    add_decoding(cases, tokens / 8, 8, 64, type);
    add_norms(cases, tokens, 512, type);
    add_row_ops(cases, tokens, 512, type);
    add_losses(cases, tokens / 4, 10000, type);
  }
  add_optimizer(cases, 10'000'000);
  return cases;
}

}  // namespace babelring
