#include "nmt/ops/cpu/kernels/avx512_bf16/amx_matmul.h"

#include <algorithm>

#include "nmt/ops/cpu/kernels/avx512_bf16/amx.h"
#include "nmt/ops/cpu/kernels/avx512_bf16/amx_block.h"
#include "nmt/ops/cpu/kernels/avx512_bf16/amx_pack.h"

namespace babelring::cpu::BABELRING_KERNEL_SET {

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
  /// Elements [k, k + k_chunk) of the sums, for n_count panels of columns. On every thread: each packs a share of B,
  /// then has a share of the rows, or, where they are few, of the columns.
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
