#include "lab/backends/remaining_ops.h"

#include <cstring>
#include <initializer_list>
#include <vector>

#include "nmt/core/random.h"

namespace babelring {

namespace {

/// Makes the tensors of ops.
class RandomTensors {
 public:
  Tensor zeros(Shape shape, DType dtype) {
    buffers_.push_back(allocate_host(static_cast<std::size_t>(shape.elements()) * size_of(dtype)));
    return buffers_.back().view(shape, dtype);
  }
  Tensor normal(Shape shape, DType dtype) {
    const Tensor tensor = zeros(shape, dtype);
    for (std::int64_t i = 0; i < shape.elements(); ++i) {
      const auto value = static_cast<float>(random_.normal());
      if (dtype == DType::f32) tensor.as<float>()[i] = value;
      if (dtype == DType::bf16) tensor.as<BFloat16>()[i] = BFloat16(value);
    }
    return tensor;
  }
  Tensor list(std::initializer_list<std::int32_t> values) {
    const Tensor tensor = zeros({static_cast<std::int64_t>(values.size())}, DType::i32);
    std::copy(values.begin(), values.end(), tensor.as<std::int32_t>());
    return tensor;
  }

 private:
  Random random_{20261123};
  std::vector<Buffer> buffers_;
};

void run_decoding(Backend& backend, RandomTensors& tensors, DType precision) {
  constexpr std::int64_t rows = 3, cached = 40, width = 64, vocabulary = 1009, k = 4;
  backend.run(DecodeAttention{.q = tensors.normal({rows, width}, precision),
                              .keys = tensors.normal({cached, width}, precision),
                              .values = tensors.normal({cached, width}, precision),
                              .key_begin = tensors.list({0, 9, 10}),
                              .key_rows = {},
                              .key_count = tensors.list({9, 1, 30}),
                              .heads = 4,
                              .scale = 0.25f,
                              .out = tensors.zeros({rows, width}, precision)});
  backend.run(LogSoftmaxTopK{.logits = tensors.normal({rows, vocabulary}, precision),
                             .scores = tensors.zeros({rows, k}, DType::f32),
                             .indices = tensors.zeros({rows, k}, DType::i32)});
}

void run_dropout(Backend& backend, RandomTensors& tensors, DType precision) {
  const std::int64_t rows = 33, width = 64;
  const Shape shape{rows, width};
  const DropoutKey key{.probability = 0.1f};
  const Tensor x = tensors.normal(shape, precision);
  backend.run(Dropout{.x = x, .y = tensors.zeros(shape, precision), .key = key});
  backend.run(ResidualDropout{
      .residual = tensors.normal(shape, precision), .branch = x, .y = tensors.zeros(shape, precision), .key = key});
  backend.run(ResidualNormForward{.residual = tensors.normal(shape, precision),
                                  .branch = x,
                                  .key = key,
                                  .gain = tensors.normal({width}, DType::f32),
                                  .bias = tensors.normal({width}, DType::f32),
                                  .sum = tensors.zeros(shape, precision),
                                  .y = tensors.zeros(shape, precision),
                                  .mean = tensors.zeros({rows}, DType::f32),
                                  .rstd = tensors.zeros({rows}, DType::f32)});
}

void run_sums(Backend& backend, RandomTensors& tensors, DType precision) {
  const Shape flat{20'000};
  const Tensor part = tensors.normal(flat, DType::f32);
  backend.run(SumWithNorm{.parts = {part, tensors.normal(flat, DType::f32), tensors.normal(flat, DType::f32)},
                          .sum = tensors.zeros(flat, DType::f32),
                          .norms = tensors.zeros({SquaredNorm::blocks(flat.elements())}, DType::f32)});
  backend.run(Cast{.x = part, .y = tensors.zeros(flat, DType::bf16)});
  backend.run(Fill{.y = tensors.zeros(flat, DType::f32), .value = 1.5f});
  backend.run(Add{.x = tensors.normal(flat, precision), .y = tensors.normal(flat, precision)});
}

}  // namespace

void run_remaining_ops(Backend& backend, DType precision) {
  RandomTensors tensors;
  const WorkRange range(backend, "remaining_ops");
  run_decoding(backend, tensors, precision);
  run_dropout(backend, tensors, precision);
  run_sums(backend, tensors, precision);
}

}  // namespace babelring
