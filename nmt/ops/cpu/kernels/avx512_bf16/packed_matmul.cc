#include "nmt/ops/cpu/kernels/avx512_bf16/packed_matmul.h"

#include <immintrin.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace babelring::cpu::BABELRING_KERNEL_SET {

namespace {

constexpr int panel_vectors = 4;  // of 16 outputs
constexpr std::int64_t panel_outputs = 16 * panel_vectors;
constexpr std::int64_t word_bytes = 4;
constexpr std::int64_t panel_step_bytes = panel_outputs * word_bytes;
constexpr int block_rows = 6;  // with a panel's width: 24 registers of sums, 4 of weights, 1 of x

std::int64_t panels_over(std::int64_t outputs) {
  return (outputs + panel_outputs - 1) / panel_outputs;
}

std::int64_t steps_over(std::int64_t row_bytes) {
  return (row_bytes + word_bytes - 1) / word_bytes;
}

struct F32Words {
  static __m512 add_matmul(__m512 sum, __m512i a, __m512i b) {
    return _mm512_fmadd_ps(_mm512_castsi512_ps(a), _mm512_castsi512_ps(b), sum);
  }
};

struct Bf16Pairs {
  static __m512 add_matmul(__m512 sum, __m512i a, __m512i b) {
    return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
  }
};

/// A LinearForward in bytes.
struct PanelMatmul {
  const char* x;
  std::int64_t x_stride, row_bytes;
  const char* panels;
  std::int64_t panel_bytes, outputs;
  const float* bias;  // or null
  bool relu;
  char* y;
  std::int64_t y_stride;
  bool y_bf16;
};

/// The first `count` of a row's 16 results, 16 if there are more.
void store_results(const PanelMatmul& p, std::int64_t row, std::int64_t output, __m512 values) {
  const std::int64_t count = std::min<std::int64_t>(16, p.outputs - output);
  const auto mask = static_cast<__mmask16>((1U << count) - 1);
  if (p.bias != nullptr) values = _mm512_add_ps(values, _mm512_maskz_loadu_ps(mask, p.bias + output));
  if (p.relu) values = _mm512_max_ps(_mm512_setzero_ps(), values);  // NaN stays
  char* to = p.y + row * p.y_stride;
  if (p.y_bf16) {
    _mm256_mask_storeu_epi16(to + 2 * output, mask, reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(values)));
  } else {
    _mm512_mask_storeu_ps(to + 4 * output, mask, values);
  }
}

/// `rows` x a panel's outputs, sums in registers over all inputs.
template <class Words, int rows>
void multiply_block_by_panel(const PanelMatmul& p, std::int64_t row, std::int64_t panel) {
  const char* x = p.x + row * p.x_stride;
  const char* step = p.panels + panel * p.panel_bytes;
  __m512 sums[rows][panel_vectors];
  for (auto& of_row : sums) {
    for (__m512& sum : of_row) sum = _mm512_setzero_ps();
  }
  const auto add_step = [&](auto bytes) __attribute__((always_inline)) {
    __m512i weights[panel_vectors];
#pragma GCC unroll 4
    for (int v = 0; v < panel_vectors; ++v) weights[v] = _mm512_loadu_si512(step + 64 * v);
#pragma GCC unroll 6
    for (int i = 0; i < rows; ++i) {
      std::uint32_t word = 0;
      std::memcpy(&word, x + i * p.x_stride, bytes);
      const __m512i factor = _mm512_set1_epi32(static_cast<int>(word));
#pragma GCC unroll 4
      for (int v = 0; v < panel_vectors; ++v) sums[i][v] = Words::add_matmul(sums[i][v], factor, weights[v]);
    }
    step += panel_step_bytes;
  };
  const char* end = x + p.row_bytes / word_bytes * word_bytes;
  for (; x < end; x += word_bytes) add_step(std::integral_constant<std::size_t, word_bytes>{});
  if (p.row_bytes % word_bytes != 0) add_step(std::integral_constant<std::size_t, sizeof(BFloat16)>{});
#pragma GCC unroll 4
  for (int v = 0; v < panel_vectors; ++v) {
    const std::int64_t output = panel * panel_outputs + 16 * v;
    if (output >= p.outputs) break;
#pragma GCC unroll 6
    for (int i = 0; i < rows; ++i) store_results(p, row + i, output, sums[i][v]);
  }
}

template <class Words>
void multiply_rows_by_panel(const PanelMatmul& p, std::int64_t first, std::int64_t count, std::int64_t panel) {
  switch (count) {
    case 6:
      return multiply_block_by_panel<Words, 6>(p, first, panel);
    case 5:
      return multiply_block_by_panel<Words, 5>(p, first, panel);
    case 4:
      return multiply_block_by_panel<Words, 4>(p, first, panel);
    case 3:
      return multiply_block_by_panel<Words, 3>(p, first, panel);
    case 2:
      return multiply_block_by_panel<Words, 2>(p, first, panel);
    default:
      return multiply_block_by_panel<Words, 1>(p, first, panel);
  }
}

/// Threads take panels, and where these are few, parts of the rows: a thread's own second-level cache keeps the panel
/// while rows pass by. Blocks are as equal as can be: one of two rows costs nearly as much as one of four.
template <class Words>
void multiply_all(const PanelMatmul& p, std::int64_t rows, int threads) {
  constexpr std::int64_t chunk = 8;  // blocks
  const std::int64_t blocks = (rows + block_rows - 1) / block_rows, chunks = (blocks + chunk - 1) / chunk;
  const std::int64_t tasks = panels_over(p.outputs) * chunks;
#pragma omp parallel for schedule(static) num_threads(threads)
  for (std::int64_t task = 0; task < tasks; ++task) {
    const std::int64_t first = task % chunks * chunk, end = std::min(blocks, first + chunk);
    for (std::int64_t block = first; block < end; ++block) {
      const std::int64_t row = rows * block / blocks;
      multiply_rows_by_panel<Words>(p, row, rows * (block + 1) / blocks - row, task / chunks);
    }
  }
}

/// One panel of `outputs` rows of the weight, a line of each at a time.
void pack_panel(const char* weight, std::int64_t row_bytes, std::int64_t outputs, char* panel) {
  constexpr std::int64_t words_of_line = 16;
  const std::int64_t words = row_bytes / word_bytes, left = row_bytes % word_bytes;
  for (std::int64_t first = 0; first < words; first += words_of_line) {
    for (std::int64_t j = 0; j < outputs; ++j) {
      for (std::int64_t word = first; word < std::min(words, first + words_of_line); ++word) {
        std::memcpy(panel + word * panel_step_bytes + j * word_bytes, weight + j * row_bytes + word * word_bytes,
                    word_bytes);
      }
    }
  }
  for (std::int64_t j = 0; left > 0 && j < outputs; ++j) {
    std::memcpy(panel + words * panel_step_bytes + j * word_bytes, weight + j * row_bytes + words * word_bytes,
                static_cast<std::size_t>(left));
  }
}

std::int64_t bytes_of(const ConstTensor& tensor, std::int64_t elements) {
  return elements * static_cast<std::int64_t>(size_of(tensor.dtype));
}

}  // namespace

Buffer pack_panels(const ConstTensor& weight, int threads) {
  const std::int64_t outputs = weight.shape[0], row_bytes = bytes_of(weight, weight.shape[1]);
  const std::int64_t panels = panels_over(outputs), panel_bytes = steps_over(row_bytes) * panel_step_bytes;
  Buffer packed = allocate_host(static_cast<std::size_t>(panels * panel_bytes));
  char* to = static_cast<char*>(packed.data());
#pragma omp parallel for schedule(static) num_threads(threads)
  for (std::int64_t panel = 0; panel < panels; ++panel) {
    const std::int64_t first = panel * panel_outputs;
    pack_panel(weight.as<char>() + first * row_bytes, row_bytes, std::min(panel_outputs, outputs - first),
               to + panel * panel_bytes);
  }
  return packed;
}

void multiply_by_panels(const LinearForward& op, const CpuContext& context) {
  const std::int64_t rows = op.x.shape[0], row_bytes = bytes_of(op.x, op.x.shape[1]);
  const PanelMatmul matmul{.x = op.x.as<char>(),
                           .x_stride = bytes_of(op.x, op.x.row_stride),
                           .row_bytes = row_bytes,
                           .panels = static_cast<const char*>(op.packed->elements.data()),
                           .panel_bytes = steps_over(row_bytes) * panel_step_bytes,
                           .outputs = op.weight.shape[0],
                           .bias = op.bias.as<float>(),
                           .relu = op.activation == Activation::relu,
                           .y = op.y.as<char>(),
                           .y_stride = bytes_of(op.y, op.y.row_stride),
                           .y_bf16 = op.y.dtype == DType::bf16};
  const int threads = op.flops() < 128 * 1024 ? 1 : context.threads();
  op.x.dtype == DType::bf16 ? multiply_all<Bf16Pairs>(matmul, rows, threads)
                            : multiply_all<F32Words>(matmul, rows, threads);
}

}  // namespace babelring::cpu::BABELRING_KERNEL_SET
