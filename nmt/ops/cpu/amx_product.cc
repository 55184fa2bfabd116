#include "nmt/ops/cpu/amx_product.h"

#include <immintrin.h>

#include <algorithm>
#include <array>

#include "nmt/ops/cpu/amx.h"
#include "nmt/ops/cpu/amx_pack.h"

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")

namespace babelring::cpu {

namespace {

constexpr std::int64_t block_bytes = 4096;       // 32 x 32 sums
constexpr std::int64_t block_row_bytes = 128;    // one of its rows
constexpr std::int64_t k_limit = 2048;           // of one pass: longer sums continue from memory
constexpr std::int64_t a_limit_bytes = 1 << 20;  // of A's panels that a thread goes over again and again: half its L2
constexpr std::int64_t b_limit_bytes = 8 << 20;  // of B's packed panels, shared by the threads
constexpr std::int64_t most_panels = 64;

std::int64_t panels_of(std::int64_t count) {
  return (count + panel_width - 1) / panel_width;
}

/// 32 rows of A as tiles: where they are and how far apart.
struct PanelOfA {
  const char* at;
  std::int64_t row_bytes, next_step, second_tile;
};

/// sums (+)= 32 rows of A times a packed panel of B.
template <bool continued>
void multiply(const PanelOfA& a, const char* b, std::int64_t steps, char* sums, std::int64_t row_bytes) {
  char* lower = sums + 16 * row_bytes;
  if constexpr (continued) {
    tile_load<0>(sums, row_bytes), tile_load<1>(sums + 64, row_bytes);
    tile_load<2>(lower, row_bytes), tile_load<3>(lower + 64, row_bytes);
  } else {
    tile_zero<0>(), tile_zero<1>(), tile_zero<2>(), tile_zero<3>();
  }
  const char* top = a.at;
  for (std::int64_t step = 0; step < steps; ++step, top += a.next_step, b += step_bytes) {
    tile_load<4>(top, a.row_bytes);
    tile_load<6>(b, 64);
    tile_load<7>(b + tile_bytes, 64);
    tile_load<5>(top + a.second_tile, a.row_bytes);
    tile_multiply<0, 4, 6>(), tile_multiply<1, 4, 7>();
    tile_multiply<2, 5, 6>(), tile_multiply<3, 5, 7>();
  }
  tile_store<0>(sums, row_bytes), tile_store<1>(sums + 64, row_bytes);
  tile_store<2>(lower, row_bytes), tile_store<3>(lower + 64, row_bytes);
}

__mmask16 first_lanes(std::int64_t count) {
  return static_cast<__mmask16>(count >= 16 ? 0xffff : count <= 0 ? 0 : (1 << count) - 1);
}

/// Adds 16 sums to an f32 result.
void add_to(float* c, __mmask16 mask, __m512 sums, bool accumulate) {
  if (accumulate) sums = _mm512_add_ps(sums, _mm512_maskz_loadu_ps(mask, c));
  _mm512_mask_storeu_ps(c, mask, sums);
}

__m512 widened(const BFloat16* values, __mmask16 mask) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, values)), 16));
}

/// One product while it runs.
class Run {
 public:
  Run(const AmxProduct& product, Workspace& workspace)
      : p_(product), m_panels_(panels_of(p_.m)), n_panels_(panels_of(p_.n)) {
    const std::int64_t passes = (p_.k + k_limit - 1) / k_limit;
    k_chunk_ = steps_of((p_.k + passes - 1) / passes) * 32;
    const std::int64_t panel_bytes = k_chunk_ * panel_width * 2;
    m_chunk_ = std::clamp<std::int64_t>(a_limit_bytes / panel_bytes, 1, most_panels);
    n_chunk_ = std::clamp<std::int64_t>(b_limit_bytes / panel_bytes, 1, n_panels_);
    threads_ = p_.m * p_.n * p_.k < 64 * 1024 ? 1 : workspace.threads();
    in_place_ = p_.c_type == DType::f32 && p_.bias == nullptr && !p_.relu && p_.gate == nullptr && p_.factor == 1;
    kept_sums_ = !in_place_ && passes > 1;
    a_bytes_ = m_chunk_ * panel_bytes;
    const std::int64_t of_thread = a_bytes_ + block_bytes, b_bytes = n_chunk_ * panel_bytes;
    const std::int64_t sums_bytes = kept_sums_ ? m_panels_ * n_panels_ * block_bytes : 0;
    b_ = static_cast<char*>(
        static_cast<void*>(workspace.shared((b_bytes + sums_bytes + threads_ * of_thread + 64) / 4)));
    sums_ = b_ + b_bytes;
    thread_memory_ = sums_ + sums_bytes;
  }

  void operator()() {
#pragma omp parallel num_threads(threads_)
    {
      const TileConfiguration configuration;
      for (std::int64_t k = 0; k < p_.k; k += k_chunk_) {
        for (std::int64_t n = 0; n < n_panels_; n += n_chunk_) pass(k, n, std::min(n_chunk_, n_panels_ - n));
      }
    }
  }

 private:
  /// Elements [k, k + k_chunk) of the sums, for n_count panels of columns. On every thread.
  void pass(std::int64_t k, std::int64_t n, std::int64_t n_count) {
    const std::int64_t depth = std::min(k_chunk_, p_.k - k);
#pragma omp for schedule(static)  // with its barrier
    for (std::int64_t panel = 0; panel < n_count; ++panel) pack_b(n + panel, k, depth, b_of(panel));
    std::int64_t m_first = 0, m_end = m_panels_, n_first = 0, n_end = n_count;
    const std::int64_t thread = omp_get_thread_num();
    if (m_panels_ >= 2 * threads_) {
      m_first = m_panels_ * thread / threads_, m_end = m_panels_ * (thread + 1) / threads_;
    } else {
      n_first = n_count * thread / threads_, n_end = n_count * (thread + 1) / threads_;
    }
    for (std::int64_t m = m_first; m < m_end; m += m_chunk_) {
      const std::int64_t m_count = std::min(m_chunk_, m_end - m);
      std::array<PanelOfA, most_panels> a;
      for (std::int64_t i = 0; i < m_count; ++i) a[static_cast<std::size_t>(i)] = panel_of_a(m + i, k, depth, i);
      for (std::int64_t j = n_first; j < n_end; ++j) {
        for (std::int64_t i = 0; i < m_count; ++i)
          block(a[static_cast<std::size_t>(i)], m + i, n + j, b_of(j), k, depth);
      }
    }
#pragma omp barrier  // before B's memory is written again
  }

  char* b_of(std::int64_t panel) const {
    return b_ + panel * k_chunk_ * panel_width * 2;
  }
  char* memory_of_this_thread() const {
    return thread_memory_ + omp_get_thread_num() * (a_bytes_ + block_bytes);
  }

  void pack_b(std::int64_t panel, std::int64_t k, std::int64_t depth, char* to) const {
    const std::int64_t first = panel * panel_width, count = std::min(panel_width, p_.n - first);
    if (p_.b_transposed) {
      pack_columns_transposed(p_.b + first * p_.b_stride + k, p_.b_stride, count, depth, to);
    } else {
      pack_columns(p_.b + k * p_.b_stride + first, p_.b_stride, count, depth, to);
    }
  }

  /// A's panel where it lies, or packed into place `slot` of this thread's memory. Rows that are a multiple of 4 KiB
  /// apart would all fall into the same few sets of the caches.
  PanelOfA panel_of_a(std::int64_t panel, std::int64_t k, std::int64_t depth, std::int64_t slot) const {
    const std::int64_t first = panel * panel_width, count = std::min(panel_width, p_.m - first);
    const std::int64_t row_bytes = p_.a_stride * 2;
    if (!p_.a_transposed && count == panel_width && depth % 32 == 0 && row_bytes % 4096 != 0) {
      const BFloat16* at = p_.a + first * p_.a_stride + k;
      return {static_cast<const char*>(static_cast<const void*>(at)), row_bytes, 64, 16 * row_bytes};
    }
    char* to = memory_of_this_thread() + block_bytes + slot * k_chunk_ * panel_width * 2;
    if (p_.a_transposed) {
      pack_rows_transposed(p_.a + k * p_.a_stride + first, p_.a_stride, count, depth, to);
    } else {
      pack_rows(p_.a + first * p_.a_stride + k, p_.a_stride, count, depth, to);
    }
    return {to, 64, step_bytes, tile_bytes};
  }

  void block(const PanelOfA& a, std::int64_t m, std::int64_t n, const char* b, std::int64_t k,
             std::int64_t depth) const {
    const std::int64_t rows = std::min(panel_width, p_.m - m * panel_width);
    const std::int64_t columns = std::min(panel_width, p_.n - n * panel_width), steps = steps_of(depth);
    if (in_place_ && rows == panel_width && columns == panel_width) {
      char* c = static_cast<char*>(p_.c) + (m * panel_width * p_.c_stride + n * panel_width) * 4;
      p_.accumulate || k > 0 ? multiply<true>(a, b, steps, c, p_.c_stride * 4)
                             : multiply<false>(a, b, steps, c, p_.c_stride * 4);
      return;
    }
    char* sums = kept_sums_ ? sums_ + (m * n_panels_ + n) * block_bytes : memory_of_this_thread();
    kept_sums_&& k > 0 ? multiply<true>(a, b, steps, sums, block_row_bytes)
                       : multiply<false>(a, b, steps, sums, block_row_bytes);
    if (in_place_) {
      finish_f32(sums, m, n, rows, columns, p_.accumulate || k > 0);
    } else if (k + depth == p_.k) {
      p_.c_type == DType::f32 ? finish_f32(sums, m, n, rows, columns, p_.accumulate)
                              : finish_bf16(sums, m, n, rows, columns);
    }
  }

  /// What happens to a vector of sums before it is stored.
  __m512 finished(__m512 value, __m512 bias, std::int64_t row, std::int64_t column, __mmask16 mask) const {
    value = _mm512_add_ps(value, bias);
    if (p_.relu) value = _mm512_max_ps(_mm512_setzero_ps(), value);  // in this order NaN stays NaN
    if (p_.gate != nullptr) {
      const __m512 gate = widened(p_.gate + row * p_.gate_stride + column, mask);
      value = _mm512_maskz_mul_ps(_mm512_cmp_ps_mask(gate, _mm512_setzero_ps(), _CMP_GT_OQ), value,
                                  _mm512_set1_ps(p_.factor));
    }
    return value;
  }

  struct Lanes {
    __mmask16 left, right;
    __m512 left_bias, right_bias;
  };
  Lanes lanes_of(std::int64_t column, std::int64_t columns) const {
    Lanes lanes{first_lanes(columns), first_lanes(columns - 16), _mm512_setzero_ps(), _mm512_setzero_ps()};
    if (p_.bias == nullptr) return lanes;
    lanes.left_bias = _mm512_maskz_loadu_ps(lanes.left, p_.bias + column);
    lanes.right_bias = _mm512_maskz_loadu_ps(lanes.right, p_.bias + column + 16);
    return lanes;
  }

  void finish_f32(const char* sums, std::int64_t m, std::int64_t n, std::int64_t rows, std::int64_t columns,
                  bool add) const {
    const std::int64_t first = m * panel_width, column = n * panel_width;
    const Lanes lanes = lanes_of(column, columns);
    for (std::int64_t i = 0; i < rows; ++i, sums += block_row_bytes) {
      float* c = static_cast<float*>(p_.c) + (first + i) * p_.c_stride + column;
      add_to(c, lanes.left, finished(_mm512_load_ps(sums), lanes.left_bias, first + i, column, lanes.left), add);
      add_to(c + 16, lanes.right,
             finished(_mm512_load_ps(sums + 64), lanes.right_bias, first + i, column + 16, lanes.right), add);
    }
  }

  void finish_bf16(const char* sums, std::int64_t m, std::int64_t n, std::int64_t rows, std::int64_t columns) const {
    const std::int64_t first = m * panel_width, column = n * panel_width;
    const Lanes lanes = lanes_of(column, columns);
    const auto both = static_cast<__mmask32>(lanes.left) | static_cast<__mmask32>(lanes.right) << 16;
    for (std::int64_t i = 0; i < rows; ++i, sums += block_row_bytes) {
      BFloat16* c = static_cast<BFloat16*>(p_.c) + (first + i) * p_.c_stride + column;
      __m512 left = finished(_mm512_load_ps(sums), lanes.left_bias, first + i, column, lanes.left);
      __m512 right = finished(_mm512_load_ps(sums + 64), lanes.right_bias, first + i, column + 16, lanes.right);
      if (p_.accumulate) {
        left = _mm512_add_ps(left, widened(c, lanes.left));
        right = _mm512_add_ps(right, widened(c + 16, lanes.right));
      }
      const __m512bh values = _mm512_cvtne2ps_pbh(right, left);
      _mm512_mask_storeu_epi16(c, both, reinterpret_cast<const __m512i&>(values));
    }
  }

  const AmxProduct& p_;
  std::int64_t m_panels_, n_panels_, k_chunk_, m_chunk_, n_chunk_, a_bytes_;
  int threads_;
  bool in_place_;   // tiles are f32 results themselves
  bool kept_sums_;  // sums of several passes wait in memory
  char *b_, *sums_, *thread_memory_;
};

}  // namespace

void run(const AmxProduct& product, Workspace& workspace) {
  if (product.m == 0 || product.n == 0 || product.k == 0) return;
  Run(product, workspace)();
}

}  // namespace babelring::cpu

#pragma GCC pop_options
