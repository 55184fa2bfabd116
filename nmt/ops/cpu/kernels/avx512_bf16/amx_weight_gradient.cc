#include <immintrin.h>

#include <algorithm>

#include "nmt/ops/cpu/kernels/avx512_bf16/amx.h"
#include "nmt/ops/cpu/kernels/avx512_bf16/amx_block.h"
#include "nmt/ops/cpu/kernels/avx512_bf16/amx_matmul.h"
#include "nmt/ops/cpu/kernels/avx512_bf16/amx_pack.h"

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
class Run {
 public:
  Run(const AmxMatmul& matmul, CpuContext& context)
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
  Run(matmul, context)();
}

}  // namespace babelring::cpu::BABELRING_KERNEL_SET
