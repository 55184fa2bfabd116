#include "lab/probe/backend_compare.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "base/failure.h"
#include "base/result.h"
#include "lab/probe/tensor_distance.h"
#include "nmt/core/random.h"
#include "nmt/ops/backend.h"
#include "nmt/ops/cuda_module.h"
#include "nmt/ops/every_op.h"
#include "nmt/ops/ops.h"
#include "nmt/ops/staging.h"

namespace babelring {
namespace {

/// Copies of the bf16 tensors of one op in f32.
class WideCopies {
 public:
  void widen(ConstTensor& view, Access) { view = widened(view, true); }
  void widen(Tensor& view, Access access) {
    const Tensor narrow = view;
    view = widened(narrow, access == Access::updates);
    results_.push_back({narrow, view.as<float>()});
  }
  /// Rounds what the op has written to where it belongs.
  void round() const {
    for (const auto& [narrow, wide] : results_) {
      const float* from = wide;
      for (std::int64_t row = 0; row < narrow.rows(); ++row) {
        auto* const to = narrow.as<BFloat16>() + row * narrow.row_stride;
        for (std::int64_t column = 0; column < narrow.columns(); ++column) to[column] = BFloat16(*from++);
      }
    }
  }

 private:
  Tensor widened(const ConstTensor& narrow, bool copy) {
    copies_.push_back(allocate_host(static_cast<std::size_t>(narrow.shape.elements()) * sizeof(float)));
    const Tensor wide = copies_.back().view(narrow.shape, DType::f32);
    auto* to = wide.as<float>();
    for (std::int64_t row = 0; copy && row < narrow.rows(); ++row) {
      const auto* const from = narrow.as<BFloat16>() + row * narrow.row_stride;
      for (std::int64_t column = 0; column < narrow.columns(); ++column) *to++ = static_cast<float>(from[column]);
    }
    return wide;
  }

  struct Result {
    Tensor narrow;
    const float* wide;
  };
  std::vector<Buffer> copies_;
  std::vector<Result> results_;
};

class WideningBackend final : public EveryOp<WideningBackend> {
 public:
  explicit WideningBackend(std::unique_ptr<Backend> cpu) : cpu_(std::move(cpu)) {}

  void upload(const void* host, Tensor to) override { cpu_->upload(host, to); }
  void download(ConstTensor from, void* host) override { cpu_->download(from, host); }
  void synchronize() override { cpu_->synchronize(); }
  std::string description() const override { return fmt::format("f32 by {}", cpu_->description()); }
  bool prefers_fused_bias_gradients() const override { return cpu_->prefers_fused_bias_gradients(); }

  template <class Op>
  void launch(const Op& op) {
    Op wide = op;
    if constexpr (requires { wide.packed; }) wide.packed = nullptr;
    if constexpr (requires { wide.bias_copy; }) wide.bias_copy = {};
    WideCopies copies;
    for_each_field(wide, [&](std::string_view, auto& view, Access access) {
      if (view.dtype == DType::bf16 && view.shape.elements() > 0) copies.widen(view, access);
    });
    cpu_->run(wide);
    copies.round();
  }
  void launch(const AdamUpdate& op) { cpu_->run(op); }

 private:
  Buffer do_allocate(std::size_t bytes, MemoryPurpose purpose) override { return cpu_->allocate(bytes, purpose); }

  std::unique_ptr<Backend> cpu_;
};

}  // namespace

std::unique_ptr<Backend> make_widening_backend(std::unique_ptr<Backend> cpu) {
  return std::make_unique<WideningBackend>(std::move(cpu));
}

namespace {

/// The bits of a tensor's elements, in row-major order.
std::vector<std::uint32_t> element_bits(const ConstTensor& tensor) {
  std::vector<std::uint32_t> bits;
  bits.reserve(static_cast<std::size_t>(tensor.shape.elements()));
  for (std::int64_t row = 0; row < tensor.rows(); ++row) {
    for (std::int64_t column = 0; column < tensor.columns(); ++column) {
      const std::int64_t at = row * tensor.row_stride + column;
      bits.push_back(tensor.dtype == DType::bf16 ? tensor.as<std::uint16_t>()[at] : tensor.as<std::uint32_t>()[at]);
    }
  }
  return bits;
}

double largest_magnitude(const std::vector<std::uint32_t>& bits, DType dtype) {
  double largest = 0;
  for (const std::uint32_t element : bits) {
    const double magnitude = std::abs(value_of(element, dtype));
    if (std::isfinite(magnitude)) largest = std::max(largest, magnitude);
  }
  return largest;
}

}  // namespace

ComparingBackend::ComparingBackend(std::unique_ptr<Backend> a, std::unique_ptr<Backend> b)
    : a_(std::move(a)), b_(b->host_memory() ? std::move(b) : make_staged_backend(std::move(b))) {}

void ComparingBackend::upload(const void* host, Tensor to) {
  if (to.bytes() > 0) std::memcpy(to.data, host, to.bytes());
}

void ComparingBackend::download(ConstTensor from, void* host) {
  if (from.bytes() > 0) std::memcpy(host, from.data, from.bytes());
}

OpDifference& ComparingBackend::difference_of(std::string_view op, std::string_view member, DType dtype) {
  const auto found = std::find_if(differences_.begin(), differences_.end(), [&](const OpDifference& difference) {
    return difference.op == op && difference.member == member && difference.dtype == dtype;
  });
  if (found != differences_.end()) return *found;
  return differences_.emplace_back(OpDifference{.op = std::string(op), .member = std::string(member), .dtype = dtype});
}

void ComparingBackend::compare(std::string_view op, std::string_view member, const ConstTensor& a,
                               const ConstTensor& b) {
  OpDifference& difference = difference_of(op, member, b.dtype);
  const std::int64_t call = difference.calls++;
  difference.elements += b.shape.elements();
  const std::vector<std::uint32_t> bits_a = element_bits(a), bits_b = element_bits(b);
  const TensorDistance distance = distance_of(bits_a, bits_b, b.dtype);
  if (distance.different == 0) return;
  difference.different += distance.different;
  const double largest = largest_magnitude(bits_b, b.dtype);
  if (distance.worst.absolute > 0) {
    difference.relative = std::max(difference.relative, distance.worst.absolute / largest);
  }
  if (difference.element >= 0 && distance.worst.ulp <= difference.ulp) return;
  difference.ulp = distance.worst.ulp;
  difference.range = fmt::format("{}", fmt::join(ranges_, "/"));
  difference.call = call;
  difference.shape = b.shape;
  difference.element = distance.ulp.at;
  difference.value_a = value_of(bits_a[static_cast<std::size_t>(distance.ulp.at)], b.dtype);
  difference.value_b = value_of(bits_b[static_cast<std::size_t>(distance.ulp.at)], b.dtype);
}

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

void run_guided_attention(Backend& backend, RandomTensors& tensors, DType precision) {
  constexpr std::int64_t queries = 5, keys = 7, width = 64, heads = 4;
  AttentionForward attention{.q = tensors.normal({queries, width}, precision),
                             .k = tensors.normal({keys, width}, precision),
                             .v = tensors.normal({keys, width}, precision),
                             .q_offsets = tensors.list({0, 2, 5}),
                             .k_offsets = tensors.list({0, 4, 7}),
                             .heads = heads,
                             .scale = 0.25f,
                             .key = {},
                             .out = tensors.zeros({queries, width}, precision),
                             .log_sum_exp = tensors.zeros({queries, heads}, DType::f32)};
  backend.run(attention);
  backend.run(GuidedAttention{.q = attention.q,
                              .k = attention.k,
                              .q_offsets = attention.q_offsets,
                              .k_offsets = attention.k_offsets,
                              .link_offsets = tensors.list({0, 1, 1, 3, 4, 5}),
                              .links = tensors.list({3, 0, 2, 1, 1}),
                              .log_sum_exp = attention.log_sum_exp,
                              .heads = heads,
                              .head = 1,
                              .scale = attention.scale,
                              .gradient_scale = 0.1f,
                              .dq = tensors.normal({queries, width}, precision),
                              .dk = tensors.normal({keys, width}, precision),
                              .loss = tensors.zeros({queries}, DType::f32)});
}

void run_divergence(Backend& backend, RandomTensors& tensors, DType precision) {
  const Shape logits{5, 1'000};
  backend.run(SymmetricDivergence{.first = tensors.normal(logits, precision),
                                  .second = tensors.normal(logits, precision),
                                  .targets = tensors.list({0, 1, 2, 3, CrossEntropy::no_target}),
                                  .gradient_scale = 0.1f,
                                  .dfirst = tensors.normal(logits, precision),
                                  .dsecond = tensors.normal(logits, precision),
                                  .loss = tensors.zeros({logits[0]}, DType::f32)});
}

void run_elementwise(Backend& backend, RandomTensors& tensors, DType precision) {
  const std::int64_t rows = 33, width = 64;
  const Shape shape{rows, width};
  const DropoutKey key{.probability = 0.1f};
  const Tensor x = tensors.normal(shape, precision);
  backend.run(Dropout{.x = x, .y = tensors.zeros(shape, precision), .key = key});
  backend.run(ResidualDropout{
      .residual = tensors.normal(shape, precision), .branch = x, .y = tensors.zeros(shape, precision), .key = key});
  for (const Activation activation : {Activation::swish, Activation::gelu, Activation::swiglu}) {
    const bool gated = activation == Activation::swiglu;
    const Tensor up = gated ? tensors.normal(shape, precision) : Tensor();
    backend.run(ActivationForward{
        .z = x, .y = tensors.zeros(shape, precision), .activation = activation, .key = key, .up = up});
    backend.run(ActivationBackward{.dy = tensors.normal(shape, precision),
                                   .z = x,
                                   .dz = tensors.zeros(shape, precision),
                                   .activation = activation,
                                   .key = key,
                                   .up = up,
                                   .dup = gated ? tensors.zeros(shape, precision) : Tensor()});
  }
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

/// Runs what models with other norms and positions have.
void run_modern(Backend& backend, RandomTensors& tensors, DType precision) {
  const std::int64_t rows = 5, width = 64;
  const Shape shape{rows, width};
  const Tensor positions = tensors.list({0, 1, 2, 700, 1500});
  for (const bool inverse : {false, true}) {
    backend.run(RotaryPositions{.x = tensors.normal(shape, precision),
                                .positions = positions,
                                .y = tensors.zeros(shape, precision),
                                .heads = 4,
                                .inverse = inverse});
  }
  const Tensor gain = tensors.normal({width}, DType::f32), rstd = tensors.zeros({rows}, DType::f32);
  const Tensor x = tensors.normal(shape, precision);
  backend.run(LayerNormForward{
      .x = x, .gain = gain, .bias = {}, .y = tensors.zeros(shape, precision), .mean = {}, .rstd = rstd});
  backend.run(LayerNormBackward{.dy = tensors.normal(shape, precision),
                                .x = x,
                                .gain = gain,
                                .mean = {},
                                .rstd = rstd,
                                .dx = tensors.zeros(shape, precision),
                                .dgain = tensors.zeros({width}, DType::f32),
                                .dbias = {}});
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
  run_guided_attention(backend, tensors, precision);
  run_divergence(backend, tensors, precision);
  run_elementwise(backend, tensors, precision);
  run_modern(backend, tensors, precision);
  run_sums(backend, tensors, precision);
}

namespace {

constexpr char emulated_file[] = "libbabelring_cuda_emulated.so";

std::unique_ptr<Backend> make_emulated(const std::string& option) {
  std::error_code ignored;
  const std::filesystem::path file =
      std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path() / emulated_file;
  if (!std::filesystem::exists(file, ignored)) {
    throw UsageFailure(
        fmt::format("{}: found no {}, which only builds with tests have beside their programs", option, file.string()));
  }
  const Result<CudaDevices> devices = open_cuda_module(file);
  if (!devices) throw UsageFailure(fmt::format("{}: {}", option, devices.error()));
  return make_backend_of(*devices->module, 0);
}

}  // namespace

BackendComparison compare_backends(const ProbePlan& plan, std::unique_ptr<Backend> a, std::unique_ptr<Backend> b) {
  const DType precision = plan.config.training.precision;
  for (Backend* backend : {a.get(), b.get()}) require_matmul(*backend, precision, "--precision f32");
  BackendComparison comparison{.a = a->description(), .b = b->description(), .differences = {}};
  ComparingBackend both(std::move(a), std::move(b));
  run_updates(plan, both);
  run_remaining_ops(both, precision);
  comparison.differences = both.differences();
  return comparison;
}

json::object to_json(const BackendComparison& comparison) {
  json::array ops;
  for (const OpDifference& difference : comparison.differences) {
    json::object row = {
        {"op", difference.op},       {"member", difference.member},     {"dtype", name_of(difference.dtype)},
        {"calls", difference.calls}, {"elements", difference.elements}, {"different", difference.different},
        {"ulp", difference.ulp},     {"relative", difference.relative}};
    if (difference.element >= 0) {
      row["worst"] = {{"range", difference.range},     {"call", difference.call}, {"shape", difference.shape.text()},
                      {"element", difference.element}, {"a", difference.value_a}, {"b", difference.value_b}};
    }
    ops.push_back(std::move(row));
  }
  return {{"a", comparison.a}, {"b", comparison.b}, {"ops", std::move(ops)}};
}

std::unique_ptr<Backend> make_named_backend(const std::string& option, const std::string& name, int threads) {
  if (name == "cpu") return make_cpu_backend(threads);
  if (name == "f32") return make_widening_backend(make_cpu_backend(threads));
  if (name == "emulated-cuda") return make_emulated(option);
  if (name != "cuda")
    throw UsageFailure(fmt::format("{}: expected cpu, cuda, emulated-cuda or f32, found '{}'", option, name));
  if (!find_cuda()) throw UsageFailure(fmt::format("{}: {}", option, find_cuda().error()));
  return make_cuda_backend(0);
}

}  // namespace babelring
