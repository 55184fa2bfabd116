#include "nmt/ops/cpu/kernels/avx512_bf16/amx_matmul.h"

#include <immintrin.h>

#include <algorithm>

#include "nmt/ops/cpu/kernels/avx512_bf16/amx.h"
#include "nmt/ops/cpu/kernels/avx512_bf16/amx_block.h"

namespace babelring::cpu::BABELRING_KERNEL_SET {
namespace {

constexpr std::int64_t part_panels_m = 64, part_panels_n = 32;  // of the result worked on at a time: 8 MiB of sums
constexpr std::int64_t a_panels = 16;                           // packed at once
constexpr std::int64_t depth_steps = 16;                        // of k packed at once
constexpr std::int64_t panel_bytes = depth_steps * step_bytes;
constexpr std::int64_t min_depth_of_slices = 1024;
constexpr std::int64_t max_slices = 2;

/// Panels of an operand whose rows in memory are elements of k.
struct Source {
  const BFloat16* at;
  std::int64_t stride, width;

  /// Packs steps [first, first + count) of `panels` panels from `panel` on, reading whole rows of memory in their
  /// order.
  template <class Pack>
  void pack(Pack pack_one, std::int64_t k, std::int64_t first, std::int64_t count, std::int64_t panel,
            std::int64_t panels, char* to) const {
    for (std::int64_t step = 0; step < count; ++step, to += step_bytes) {
      const std::int64_t p = 32 * (first + step), depth = std::min<std::int64_t>(32, k - p);
      for (std::int64_t i = 0; i < panels; ++i) {
        const std::int64_t column = (panel + i) * panel_width;
        pack_one(at + p * stride + column, stride, std::min(panel_width, width - column), depth, to + i * panel_bytes);
      }
    }
  }
};

/// One matmul while it runs, part by part of the result. The threads share k: each packs the rows of memory that it
/// has mostly written itself, into memory that stays in its cache; then the sums of the slices of k are added. k is cut
/// in the same places however many threads there are; more threads than slices share rows of the result too.
class MatmulRun {
 public:
  MatmulRun(const AmxMatmul& matmul, CpuContext& context)
      : p_(matmul),
        a_{p_.a, p_.a_stride, p_.m},
        b_{p_.b, p_.b_stride, p_.n},
        m_panels_(panels_of(p_.m)),
        n_panels_(panels_of(p_.n)),
        slices_(p_.k >= min_depth_of_slices ? max_slices : 1),
        threads_(context.threads()) {
    const std::int64_t m = std::min(m_panels_, part_panels_m), n = std::min(n_panels_, part_panels_n);
    slice_bytes_ = m * n * block_bytes;
    of_thread_ = (std::min(m, a_panels) + n) * panel_bytes;
    sums_ =
        static_cast<char*>(static_cast<void*>(context.shared((slices_ * slice_bytes_ + threads_ * of_thread_) / 4)));
    thread_memory_ = sums_ + slices_ * slice_bytes_;
  }

  void operator()() {
#pragma omp parallel num_threads(threads_)
    {
      for (std::int64_t m = 0; m < m_panels_; m += part_panels_m) {
        for (std::int64_t n = 0; n < n_panels_; n += part_panels_n) {
          part({m, std::min(part_panels_m, m_panels_ - m), n, std::min(part_panels_n, n_panels_ - n)});
        }
      }
    }
  }

 private:
  struct Part {
    std::int64_t m, m_count, n, n_count;  // in panels
  };

  void part(const Part& part) const {
    {
      const TileConfiguration configuration;
      const std::int64_t thread = omp_get_thread_num(), threads = omp_get_num_threads();
      const std::int64_t teams = std::min(threads, slices_), members = threads / teams, member = thread / teams;
      for (std::int64_t slice = thread % teams; slice < slices_ && member < members; slice += teams) {
        multiply_slice(part, slice, part.m_count * member / members, part.m_count * (member + 1) / members);
      }
    }
#pragma omp barrier
#pragma omp for schedule(static)  // with its barrier
    for (std::int64_t m = 0; m < part.m_count; ++m) {
      for (std::int64_t n = 0; n < part.n_count; ++n) finish(part, m, n);
    }
  }

  /// Panels [m_first, m_end) of the part's rows.
  void multiply_slice(const Part& part, std::int64_t slice, std::int64_t m_first, std::int64_t m_end) const {
    const std::int64_t steps = steps_of(p_.k), first = steps * slice / slices_, end = steps * (slice + 1) / slices_;
    char* b_memory = thread_memory_ + omp_get_thread_num() * of_thread_;
    char* a_memory = b_memory + part.n_count * panel_bytes;
    for (std::int64_t step = first; step < end; step += depth_steps) {
      const std::int64_t count = std::min(depth_steps, end - step);
      b_.pack(pack_columns, p_.k, step, count, part.n, part.n_count, b_memory);
      for (std::int64_t m = m_first; m < m_end; m += a_panels) {
        const std::int64_t m_count = std::min(a_panels, m_end - m);
        a_.pack(pack_rows_transposed, p_.k, step, count, part.m + m, m_count, a_memory);
        for (std::int64_t i = 0; i < m_count; ++i) {
          for (std::int64_t n = 0; n < part.n_count; ++n) {
            multiply_block(packed_panel(a_memory + i * panel_bytes), b_memory + n * panel_bytes, 0, count, step > first,
                           sums_of(part, slice, m + i, n), nullptr);
          }
        }
      }
    }
  }

  char* sums_of(const Part& part, std::int64_t slice, std::int64_t m, std::int64_t n) const {
    return sums_ + slice * slice_bytes_ + (m * part.n_count + n) * block_bytes;
  }

  /// A block of the result from the sums of all slices.
  void finish(const Part& part, std::int64_t m, std::int64_t n) const {
    const char* first = sums_of(part, 0, m, n);
    const char* second = slices_ > 1 ? sums_of(part, 1, m, n) : nullptr;
    const std::int64_t row = (part.m + m) * panel_width, column = (part.n + n) * panel_width;
    const std::int64_t rows = std::min(panel_width, p_.m - row), columns = std::min(panel_width, p_.n - column);
    for (std::int64_t half = 0; half < columns; half += 16) {
      const auto mask = static_cast<__mmask16>(columns - half >= 16 ? 0xffff : (1 << (columns - half)) - 1);
      for (std::int64_t i = 0; i < rows; ++i) {
        float* c = static_cast<float*>(p_.c) + (row + i) * p_.c_stride + column + half;
        const std::int64_t at = i * block_row_bytes + half * 4;
        __m512 sum = _mm512_load_ps(first + at);
        if (second != nullptr) sum = _mm512_add_ps(sum, _mm512_load_ps(second + at));
        if (p_.accumulate) sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(mask, c));
        if (p_.stream && mask == 0xffff && reinterpret_cast<std::uintptr_t>(c) % 64 == 0) {
          _mm512_stream_ps(c, sum);
        } else {
          _mm512_mask_storeu_ps(c, mask, sum);
        }
      }
    }
    _mm_sfence();
  }

  const AmxMatmul& p_;
  Source a_, b_;
  std::int64_t m_panels_, n_panels_, slices_;
  int threads_;
  std::int64_t slice_bytes_, of_thread_;
  char *sums_, *thread_memory_;
};

}  // namespace

void multiply_transposed(const AmxMatmul& matmul, CpuContext& context) {
  if (matmul.m == 0 || matmul.n == 0 || matmul.k == 0) return;
  MatmulRun(matmul, context)();
}

namespace {

constexpr std::int64_t k_limit = 2048;           // of one pass over memory
constexpr std::int64_t b_limit_bytes = 1 << 20;  // of packed panels that a thread goes over again and again: half an L2

/// One matmul while it runs. B is packed, some panels at a time; A is read where it lies.
class Run {
 public:
  Run(const AmxMatmul& matmul, CpuContext& context)
      : p_(matmul), m_panels_(panels_of(p_.m)), n_panels_(panels_of(p_.n)) {
    const std::int64_t passes = (p_.k + k_limit - 1) / k_limit;
    k_chunk_ = steps_of((p_.k + passes - 1) / passes) * 32;
    n_chunk_ = std::clamp<std::int64_t>(b_limit_bytes / panel_bytes(), 1, n_panels_);
    threads_ = p_.m * p_.n * p_.k < 64 * 1024 ? 1 : context.threads();
    const std::int64_t b_bytes = p_.packed_b == nullptr ? n_chunk_ * panel_bytes() : 0;
    const std::int64_t sums_bytes = passes > 1 ? m_panels_ * n_panels_ * block_bytes : 0;
    of_thread_ = panel_bytes() + BlockMultiplier::ring_blocks(n_chunk_) * block_bytes;
    b_ = static_cast<char*>(static_cast<void*>(context.shared((b_bytes + sums_bytes + threads_ * of_thread_) / 4)));
    kept_sums_ = passes > 1 ? b_ + b_bytes : nullptr;
    thread_memory_ = b_ + b_bytes + sums_bytes;
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
  /// Elements [k, k + k_chunk) of the sums, for n_count panels of columns. On every thread: each packs a part of B,
  /// then has a part of the rows, or, where they are few, of the columns.
  void pass(std::int64_t k, std::int64_t n, std::int64_t n_count) {
    const std::int64_t depth = std::min(k_chunk_, p_.k - k), thread = omp_get_thread_num();
    const std::int64_t threads = omp_get_num_threads();
    const std::int64_t own_first = n_count * thread / threads, own_end = n_count * (thread + 1) / threads;
    if (p_.packed_b == nullptr) {
      for (std::int64_t j = own_first; j < own_end; ++j) pack_b(n + j, k, depth, b_of(j));
#pragma omp barrier
    }
    const bool by_rows = m_panels_ >= 2 * threads;
    const std::int64_t m_first = by_rows ? m_panels_ * thread / threads : 0;
    const std::int64_t m_end = by_rows ? m_panels_ * (thread + 1) / threads : m_panels_;
    const std::int64_t n_first = by_rows ? 0 : own_first, n_end = by_rows ? n_count : own_end;
    char* memory = thread_memory_ + thread * of_thread_;
    BlockMultiplier multiplier(p_, memory + panel_bytes(), BlockMultiplier::ring_blocks(n_chunk_));
    const BlockMultiplier::PanelsOfB b = panels_of_b(k, n + n_first, n_first, n_end - n_first);
    BlockMultiplier::Sums sums{.continued = k > 0, .last = k + depth == p_.k, .accumulate = p_.accumulate};
    for (std::int64_t m = m_first; m < m_end; ++m) {
      if (kept_sums_ != nullptr) sums.kept = kept_sums_ + (m * n_panels_ + n + n_first) * block_bytes;
      multiplier.row(panel_of_a(m, k, depth, memory), b, steps_of(depth), m, n + n_first, sums);
    }
    multiplier.complete();
#pragma omp barrier  // before B's memory is written again
  }

  /// Panels [panel, panel + count) of B from k on, which pass() packed as its own `packed` and following.
  BlockMultiplier::PanelsOfB panels_of_b(std::int64_t k, std::int64_t panel, std::int64_t packed,
                                         std::int64_t count) const {
    if (p_.packed_b == nullptr) return {b_of(packed), count, panel_bytes()};
    const std::int64_t whole_panel = steps_of(p_.k) * step_bytes;
    return {p_.packed_b + panel * whole_panel + k / 32 * step_bytes, count, whole_panel};
  }

  char* b_of(std::int64_t panel) const { return b_ + panel * panel_bytes(); }
  std::int64_t panel_bytes() const { return k_chunk_ * panel_width * 2; }

  void pack_b(std::int64_t panel, std::int64_t k, std::int64_t depth, char* to) const {
    const std::int64_t first = panel * panel_width, count = std::min(panel_width, p_.n - first);
    for (std::int64_t p = 0; p < depth; p += 32, to += step_bytes) {
      const std::int64_t left = std::min<std::int64_t>(32, depth - p);
      p_.b_transposed ? pack_columns_transposed(p_.b + first * p_.b_stride + k + p, p_.b_stride, count, left, to)
                      : pack_columns(p_.b + (k + p) * p_.b_stride + first, p_.b_stride, count, left, to);
    }
  }

  /// A's panel where it lies, or packed into `memory`: parts of panels, and rows a multiple of 4 KiB apart, which would
  /// all fall into the same few sets of the caches.
  PanelOfA panel_of_a(std::int64_t m, std::int64_t k, std::int64_t depth, char* memory) const {
    const std::int64_t first = m * panel_width, count = std::min(panel_width, p_.m - first);
    const std::int64_t row_bytes = p_.a_stride * 2;
    const BFloat16* at = p_.a + first * p_.a_stride + k;
    if (count == panel_width && depth % 32 == 0 && row_bytes % 4096 != 0) {
      return {static_cast<const char*>(static_cast<const void*>(at)), row_bytes, 64, 16 * row_bytes};
    }
    for (std::int64_t p = 0; p < depth; p += 32) {
      pack_rows(at + p, p_.a_stride, count, std::min<std::int64_t>(32, depth - p), memory + p / 32 * step_bytes);
    }
    return packed_panel(memory);
  }

  const AmxMatmul& p_;
  std::int64_t m_panels_, n_panels_, k_chunk_, n_chunk_, of_thread_;
  int threads_;
  char *b_, *kept_sums_, *thread_memory_;  // kept: sums of several passes; null where one is enough
};

}  // namespace

Buffer pack_transposed_b(const ConstTensor& b, int threads) {
  const std::int64_t n = b.shape[0], k = b.shape[1], panels = panels_of(n), steps = steps_of(k);
  Buffer packed = allocate_host(static_cast<std::size_t>(panels * steps * step_bytes));
  char* to = static_cast<char*>(packed.data());
#pragma omp parallel for schedule(static) num_threads(threads)
  for (std::int64_t panel = 0; panel < panels; ++panel) {
    const std::int64_t first = panel * panel_width, count = std::min(panel_width, n - first);
    const BFloat16* rows = b.as<BFloat16>() + first * k;
    for (std::int64_t step = 0; step < steps; ++step) {
      pack_columns_transposed(rows + 32 * step, k, count, std::min<std::int64_t>(32, k - 32 * step),
                              to + (panel * steps + step) * step_bytes);
    }
  }
  return packed;
}

void multiply(const AmxMatmul& matmul, CpuContext& context) {
  if (matmul.m == 0 || matmul.n == 0 || matmul.k == 0) return;
  Run(matmul, context)();
}

}  // namespace babelring::cpu::BABELRING_KERNEL_SET
