#include "nmt/ops/linear.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "nmt/ops/cpu/cpu_context.h"
#include "nmt/ops/cpu/kernels/lanes.h"

// Compiled without contraction to fused multiply-adds, which not every instruction set has (CMakeLists.txt).
namespace babelring::cpu::BABELRING_KERNEL_SET {

namespace {

constexpr std::int64_t panel_outputs = QuantizedWeight::panel_outputs, step_inputs = QuantizedWeight::step_inputs;
constexpr std::int64_t line_outputs = 16, line_bytes = line_outputs * step_inputs;
constexpr std::int64_t panel_step_bytes = panel_outputs * step_inputs;
constexpr int panel_lines = static_cast<int>(panel_outputs / line_outputs);

/// A QuantizedLinear whose x is rounded: `x` are rows of steps of four X.
template <class X>
struct ByteMatmul {
  const X* x;
  std::int64_t steps;
  const float* x_scales;  // of each row
  QuantizedWeight weight;
  std::int64_t first, end;  // outputs
  const float* bias;        // of `first`; or null
  bool relu;
  float* y;
  std::int64_t y_stride;

  const X* row(std::int64_t i) const { return x + i * steps * step_inputs; }
  const std::int8_t* panel(std::int64_t i) const {
    return weight.elements.template as<std::int8_t>() + i * steps * panel_step_bytes;
  }
};

/// Rounds a row to integers from -127 to 127, adds `zero` to each and returns their scale. Fills up the last step.
template <class X>
float quantize_row(const float* x, std::int64_t count, int zero, X* to, std::int64_t padded) {
  constexpr std::uint32_t infinity = 0x7f800000;
  constexpr float largest_q = 127, smallest = 1e-30f;
  // The integer nearest to a number below 2^22, ties to even, is in the low bits of its sum with 1.5 * 2^23.
  constexpr float shift = 12582912.0f;
  constexpr std::uint32_t shifted_zero = 0x4b400000;
  std::uint32_t largest_bits = 0;
#pragma omp simd reduction(max : largest_bits)
  for (std::int64_t i = 0; i < count; ++i) {
    largest_bits = std::max(largest_bits, std::bit_cast<std::uint32_t>(x[i]) & 0x7fffffffU);
  }
  const auto largest = std::bit_cast<float>(largest_bits);
  std::fill(to + count, to + padded, static_cast<X>(zero));
  if (largest_bits >= infinity || largest < smallest) {
    std::fill_n(to, count, static_cast<X>(zero));
    return largest_bits >= infinity ? std::numeric_limits<float>::quiet_NaN() : 0;
  }
  const float factor = largest_q / largest;
  const std::uint32_t added = static_cast<std::uint32_t>(zero) - shifted_zero;
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) {
    to[i] = static_cast<X>(std::bit_cast<std::uint32_t>(x[i] * factor + shift) + added);
  }
  return largest / largest_q;
}

/// The results of one row and the 16 outputs from `output` on, of which some may lie beyond those that are asked for.
template <class X>
[[gnu::always_inline]] inline void store_results(const ByteMatmul<X>& p, std::int64_t row, std::int64_t output,
                                                 const Vec16f& sums) {
  const Vec16f scales = load_lanes(p.weight.scales.template as<float>() + output, AllLanes());
  Vec16f values = sums * (broadcast(p.x_scales[row]) * scales);
  const float* bias = p.bias == nullptr ? nullptr : p.bias + (output - p.first);
  float* y = p.y + row * p.y_stride + (output - p.first);
  const std::int64_t begin = std::max<std::int64_t>(0, p.first - output), end = std::min(line_outputs, p.end - output);
  if (begin == 0 && end == line_outputs) {
    if (bias != nullptr) values = values + load_lanes(bias, AllLanes());
    if (p.relu) values = maximum(broadcast(0), values);  // NaN stays
    return store_lanes(y, values, AllLanes());
  }
  float each[line_outputs];
  store_lanes(each, values, AllLanes());
  for (std::int64_t i = begin; i < end; ++i) {
    const float value = bias == nullptr ? each[i] : each[i] + bias[i];
    y[i] = p.relu && 0.0f > value ? 0.0f : value;
  }
}

#if defined(__AVX512BW__)
/// x holds q + 128: `vpdpbusd` multiplies unsigned by signed bytes. 128 sum_k q(i, k) is taken off at the end.
constexpr int unsigned_zero = 128;
constexpr int byte_rows = 6;  // with a panel's width: 24 registers of sums, 4 of weights, 1 of x

/// The instruction of AVX512_VNNI, for which the sources of this set are not compiled.
[[gnu::always_inline]] inline __m512i add_byte_products(__m512i sums, __m512i x, __m512i weights) {
  asm("vpdpbusd %2, %1, %0" : "+v"(sums) : "v"(x), "v"(weights));
  return sums;
}

template <int rows>
void multiply_block(const ByteMatmul<std::uint8_t>& p, std::int64_t row, std::int64_t panel) {
  __m512i sums[rows][panel_lines];
  for (auto& of_row : sums) {
    for (__m512i& sum : of_row) sum = _mm512_setzero_si512();
  }
  const std::int8_t* weights = p.panel(panel);
  const std::uint8_t* x = p.row(row);
  const std::int64_t x_stride = p.steps * step_inputs;
  for (std::int64_t step = 0; step < p.steps; ++step, weights += panel_step_bytes, x += step_inputs) {
    __m512i lines[panel_lines];
#pragma GCC unroll 4
    for (int v = 0; v < panel_lines; ++v) lines[v] = _mm512_loadu_si512(weights + line_bytes * v);
#pragma GCC unroll 6
    for (int i = 0; i < rows; ++i) {
      std::int32_t quad = 0;
      std::memcpy(&quad, x + i * x_stride, sizeof quad);
      const __m512i factor = _mm512_set1_epi32(quad);
#pragma GCC unroll 4
      for (int v = 0; v < panel_lines; ++v) sums[i][v] = add_byte_products(sums[i][v], factor, lines[v]);
    }
  }
#pragma GCC unroll 4
  for (int v = 0; v < panel_lines; ++v) {
    const std::int64_t output = panel * panel_outputs + line_outputs * v;
    if (output >= p.end || output + line_outputs <= p.first) continue;
    const __m512i surplus = _mm512_slli_epi32(_mm512_loadu_si512(p.weight.sums.as<std::int32_t>() + output), 7);
#pragma GCC unroll 6
    for (int i = 0; i < rows; ++i) {
      store_results(p, row + i, output, {_mm512_cvtepi32_ps(_mm512_sub_epi32(sums[i][v], surplus))});
    }
  }
}
#endif

// Other processors multiply words: neighbouring products are added to sums of two inputs of a step.
#if defined(__AVX512BW__)
using PairSums = __m512i;
constexpr int word_rows = 6;
PairSums add_word_products(PairSums sums, const std::int8_t* weights, std::int64_t x) {
  const __m512i wide =
      _mm512_cvtepi8_epi16(_mm256_loadu_si256(static_cast<const __m256i_u*>(static_cast<const void*>(weights))));
  return _mm512_add_epi32(sums, _mm512_madd_epi16(wide, _mm512_set1_epi64(x)));
}
#elif defined(__AVX2__)
using PairSums = __m256i;
constexpr int word_rows = 2;
PairSums add_word_products(PairSums sums, const std::int8_t* weights, std::int64_t x) {
  const __m256i wide =
      _mm256_cvtepi8_epi16(_mm_loadu_si128(static_cast<const __m128i_u*>(static_cast<const void*>(weights))));
  return _mm256_add_epi32(sums, _mm256_madd_epi16(wide, _mm256_set1_epi64x(x)));
}
#elif defined(__SSE4_1__)
using PairSums = __m128i;
constexpr int word_rows = 1;
PairSums add_word_products(PairSums sums, const std::int8_t* weights, std::int64_t x) {
  const __m128i wide =
      _mm_cvtepi8_epi16(_mm_loadl_epi64(static_cast<const __m128i_u*>(static_cast<const void*>(weights))));
  return _mm_add_epi32(sums, _mm_madd_epi16(wide, _mm_set1_epi64x(x)));
}
#else
struct PairSums {
  std::int32_t first, second;
};
constexpr int word_rows = 1;
PairSums add_word_products(PairSums sums, const std::int8_t* weights, std::int64_t x) {
  std::int16_t words[step_inputs];
  std::memcpy(words, &x, sizeof words);
  return {sums.first + weights[0] * words[0] + weights[1] * words[1],
          sums.second + weights[2] * words[2] + weights[3] * words[3]};
}
#endif
constexpr std::int64_t pair_sums_bytes = sizeof(PairSums) / 2;  // of weights: two sums of four bytes for each output
constexpr int line_parts = static_cast<int>(line_bytes / pair_sums_bytes);

template <int rows>
void multiply_block(const ByteMatmul<std::int16_t>& p, std::int64_t row, std::int64_t panel) {
  for (std::int64_t line = 0; line < panel_lines; ++line) {
    const std::int64_t output = panel * panel_outputs + line_outputs * line;
    if (output >= p.end || output + line_outputs <= p.first) continue;
    PairSums sums[rows][line_parts] = {};
    const std::int8_t* weights = p.panel(panel) + line * line_bytes;
    const std::int16_t* x = p.row(row);
    for (std::int64_t step = 0; step < p.steps; ++step, weights += panel_step_bytes, x += step_inputs) {
#pragma GCC unroll 6
      for (int i = 0; i < rows; ++i) {
        std::int64_t quad = 0;
        std::memcpy(&quad, x + i * p.steps * step_inputs, sizeof quad);
#pragma GCC unroll 8
        for (int part = 0; part < line_parts; ++part) {
          sums[i][part] = add_word_products(sums[i][part], weights + part * pair_sums_bytes, quad);
        }
      }
    }
    for (int i = 0; i < rows; ++i) {
      std::int32_t pairs[2 * line_outputs];
      float results[line_outputs];
      std::memcpy(pairs, sums[i], sizeof pairs);
      for (std::int64_t j = 0; j < line_outputs; ++j) results[j] = static_cast<float>(pairs[2 * j] + pairs[2 * j + 1]);
      store_results(p, row + i, output, load_lanes(results, AllLanes()));
    }
  }
}

template <int rows, class X>
void multiply_rows(const ByteMatmul<X>& p, std::int64_t first, std::int64_t count, std::int64_t panel) {
  if (count == rows) return multiply_block<rows>(p, first, panel);
  if constexpr (rows > 1) multiply_rows<rows - 1>(p, first, count, panel);
}

/// Threads take panels and parts of the rows, as multiply_by_panels() does.
template <int block_rows, class X>
void multiply_all(const ByteMatmul<X>& p, std::int64_t rows, int threads) {
  constexpr std::int64_t chunk = 8;  // blocks
  const std::int64_t blocks = (rows + block_rows - 1) / block_rows, chunks = (blocks + chunk - 1) / chunk;
  const std::int64_t first_panel = p.first / panel_outputs;
  const std::int64_t panels = (p.end + panel_outputs - 1) / panel_outputs - first_panel;
#pragma omp parallel for schedule(static) num_threads(threads)
  for (std::int64_t task = 0; task < panels * chunks; ++task) {
    const std::int64_t begin = task % chunks * chunk, end = std::min(blocks, begin + chunk);
    for (std::int64_t block = begin; block < end; ++block) {
      const std::int64_t row = rows * block / blocks;
      multiply_rows<block_rows>(p, row, rows * (block + 1) / blocks - row, first_panel + task / chunks);
    }
  }
}

/// Rounds x and multiplies. `zero` is what the X of a 0 is.
template <int block_rows, class X>
void multiply(const QuantizedLinear& op, int zero, CpuContext& context) {
  const std::int64_t rows = op.x.shape[0], inputs = op.x.shape[1], steps = op.weight.steps();
  const std::int64_t padded = steps * step_inputs;
  const std::int64_t x_floats = (rows * padded * static_cast<std::int64_t>(sizeof(X)) + 3) / 4;
  float* const scales = context.shared(rows + x_floats);
  X* const x = static_cast<X*>(static_cast<void*>(scales + rows));
#pragma omp parallel for schedule(static) num_threads(context.threads_for(rows* inputs))
  for (std::int64_t row = 0; row < rows; ++row) {
    scales[row] = quantize_row(op.x.as<float>() + row * op.x.row_stride, inputs, zero, x + row * padded, padded);
  }
  const ByteMatmul<X> matmul{.x = x,
                             .steps = steps,
                             .x_scales = scales,
                             .weight = op.weight,
                             .first = op.first,
                             .end = op.first + op.y.shape[1],
                             .bias = op.bias.as<float>(),
                             .relu = op.activation == Activation::relu,
                             .y = op.y.as<float>(),
                             .y_stride = op.y.row_stride};
  // One thread below the time for which packed_matmul.cc uses one, too.
  multiply_all<block_rows>(matmul, rows, op.flops() < 4 * 128 * 1024 ? 1 : context.threads());
}

}  // namespace

void run(const QuantizedLinear& op, CpuContext& context) {
  if (op.y.shape.elements() == 0) return;
#if defined(__AVX512BW__)
  if (context.multiplies_bytes()) return multiply<byte_rows, std::uint8_t>(op, unsigned_zero, context);
#endif
  multiply<word_rows, std::int16_t>(op, 0, context);
}

}  // namespace babelring::cpu::BABELRING_KERNEL_SET
