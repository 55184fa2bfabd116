#include "nmt/ops/cpu/kernels/widened_matmul.h"

#if defined(__FMA__)
#include <immintrin.h>
#endif

#include <algorithm>

#include "nmt/ops/cpu/kernels/vector_math.h"

namespace babelring::cpu::BABELRING_KERNEL_SET {

namespace {

// A block is six rows by a panel's outputs: its sums, a panel's weights and an x fill the vector registers.
#if defined(__AVX512F__)
constexpr int vector_floats = 16, panel_vectors = 4;
#elif defined(__FMA__)
constexpr int vector_floats = 8, panel_vectors = 2;
#else
constexpr int vector_floats = 4, panel_vectors = 2;
#endif
constexpr int block_rows = 6;
constexpr std::int64_t panel_outputs = vector_floats * panel_vectors;

typedef float Vector __attribute__((vector_size(vector_floats * sizeof(float)), may_alias));

// Panels are aligned: buffers are, and a panel's step is a multiple of a vector.
Vector& vector_at(float* floats) {
  return *reinterpret_cast<Vector*>(floats);
}
const Vector& vector_at(const float* floats) {
  return *reinterpret_cast<const Vector*>(floats);
}

Vector add_product(Vector sum, float factor, Vector weights) {
#if defined(__AVX512F__)
  return _mm512_fmadd_ps(_mm512_set1_ps(factor), weights, sum);
#elif defined(__FMA__)
  return _mm256_fmadd_ps(_mm256_set1_ps(factor), weights, sum);
#else
  return sum + factor * weights;
#endif
}

std::int64_t panels_over(std::int64_t outputs) {
  return (outputs + panel_outputs - 1) / panel_outputs;
}

/// A LinearForward whose x is In and whose y is Out.
template <class In, class Out>
struct WidenedMatmul {
  const In* x;
  std::int64_t x_stride, inputs;
  const float* panels;
  std::int64_t outputs;
  const float* bias;  // or null
  bool relu;
  Out* y;
  std::int64_t y_stride;
};

/// A row's results for the outputs from `first` on, of a panel or up to the last.
template <class In, class Out>
void store_sums(const WidenedMatmul<In, Out>& p, const float* sums, std::int64_t row, std::int64_t first) {
  const std::int64_t count = std::min(panel_outputs, p.outputs - first);
  Out* const to = p.y + row * p.y_stride + first;
  for (std::int64_t i = 0; i < count; ++i) {
    const float value = p.bias == nullptr ? sums[i] : sums[i] + p.bias[first + i];
    to[i] = rounded<Out>(p.relu && value < 0 ? 0.0f : value);  // NaN stays
  }
}

/// `rows` x a panel's outputs, sums in registers over all inputs.
template <int rows, class In, class Out>
void multiply_block(const WidenedMatmul<In, Out>& p, std::int64_t row, std::int64_t panel) {
  const In* const x = p.x + row * p.x_stride;
  const float* weight = p.panels + panel * p.inputs * panel_outputs;
  Vector sums[rows][panel_vectors] = {};
  for (std::int64_t input = 0; input < p.inputs; ++input, weight += panel_outputs) {
    Vector weights[panel_vectors];
#pragma GCC unroll 4
    for (int v = 0; v < panel_vectors; ++v) weights[v] = vector_at(weight + v * vector_floats);
#pragma GCC unroll 6
    for (int i = 0; i < rows; ++i) {
      const float factor = load(x[i * p.x_stride + input]);
#pragma GCC unroll 4
      for (int v = 0; v < panel_vectors; ++v) sums[i][v] = add_product(sums[i][v], factor, weights[v]);
    }
  }
#pragma GCC unroll 6
  for (int i = 0; i < rows; ++i) {
    alignas(Vector) float row_sums[panel_outputs];  // not the array itself, which then stays in registers
#pragma GCC unroll 4
    for (int v = 0; v < panel_vectors; ++v) vector_at(row_sums + v * vector_floats) = sums[i][v];
    store_sums(p, row_sums, row + i, panel * panel_outputs);
  }
}

template <int rows, class In, class Out>
void multiply_rows(const WidenedMatmul<In, Out>& p, std::int64_t first, std::int64_t count, std::int64_t panel) {
  if (count == rows) return multiply_block<rows>(p, first, panel);
  if constexpr (rows > 1) multiply_rows<rows - 1>(p, first, count, panel);
}

/// Threads take panels, and where these are few, parts of the rows. Blocks are as equal as can be.
template <class In, class Out>
void multiply_all(const LinearForward& op, int threads) {
  const WidenedMatmul<In, Out> p{.x = op.x.as<In>(),
                                 .x_stride = op.x.row_stride,
                                 .inputs = op.x.shape[1],
                                 .panels = static_cast<const float*>(op.packed->elements.data()),
                                 .outputs = op.weight.shape[0],
                                 .bias = op.bias.as<float>(),
                                 .relu = op.activation == Activation::relu,
                                 .y = op.y.as<Out>(),
                                 .y_stride = op.y.row_stride};
  constexpr std::int64_t chunk = 8;  // blocks
  const std::int64_t rows = op.x.shape[0];
  const std::int64_t blocks = (rows + block_rows - 1) / block_rows, chunks = (blocks + chunk - 1) / chunk;
  const std::int64_t tasks = panels_over(p.outputs) * chunks;
#pragma omp parallel for schedule(static) num_threads(threads)
  for (std::int64_t task = 0; task < tasks; ++task) {
    const std::int64_t first = task % chunks * chunk, end = std::min(blocks, first + chunk);
    for (std::int64_t block = first; block < end; ++block) {
      const std::int64_t row = rows * block / blocks;
      multiply_rows<block_rows>(p, row, rows * (block + 1) / blocks - row, task / chunks);
    }
  }
}

/// One panel of `outputs` rows of the weight, a line of each at a time.
template <class T>
void pack_panel(const T* weight, std::int64_t inputs, std::int64_t outputs, float* panel) {
  constexpr std::int64_t line = 16;
  for (std::int64_t first = 0; first < inputs; first += line) {
    for (std::int64_t output = 0; output < outputs; ++output) {
      for (std::int64_t input = first; input < std::min(inputs, first + line); ++input) {
        panel[input * panel_outputs + output] = load(weight[output * inputs + input]);
      }
    }
  }
}

}  // namespace

Buffer pack_widened(const ConstTensor& weight, int threads) {
  const std::int64_t outputs = weight.shape[0], inputs = weight.shape[1], panels = panels_over(outputs);
  const std::int64_t panel_floats = inputs * panel_outputs;
  Buffer packed = allocate_host(static_cast<std::size_t>(panels * panel_floats) * sizeof(float));
  float* const to = static_cast<float*>(packed.data());
  with_float_type(weight.dtype, [&](auto tag) {
    const auto* const from = weight.as<decltype(tag)>();
#pragma omp parallel for schedule(static) num_threads(threads)
    for (std::int64_t panel = 0; panel < panels; ++panel) {
      const std::int64_t first = panel * panel_outputs;
      pack_panel(from + first * inputs, inputs, std::min(panel_outputs, outputs - first), to + panel * panel_floats);
    }
  });
  return packed;
}

void multiply_widened(const LinearForward& op, const CpuContext& context) {
  // One thread below the number of operations that packed_matmul.cc uses, too.
  const int threads = op.flops() < 128 * 1024 ? 1 : context.threads();
  if (op.x.dtype == DType::f32) return multiply_all<float, float>(op, threads);
  op.y.dtype == DType::bf16 ? multiply_all<BFloat16, BFloat16>(op, threads)
                            : multiply_all<BFloat16, float>(op, threads);
}

}  // namespace babelring::cpu::BABELRING_KERNEL_SET
