#include "nmt/ops/cpu/amx_product.h"

#include <immintrin.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "nmt/ops/cpu/amx.h"
#include "nmt/ops/cpu/amx_block.h"
#include "nmt/ops/cpu/amx_pack.h"

namespace babelring::cpu {

namespace {

constexpr std::int64_t k_limit = 2048;           // of one pass over memory
constexpr std::int64_t a_limit_bytes = 1 << 20;  // of panels that a thread goes over again and again: half its L2
constexpr std::int64_t b_limit_bytes = 8 << 20;  // of packed panels that the threads share

/// One product while it runs. B is packed, A read where it lies.
class Run {
 public:
  Run(const AmxProduct& product, Workspace& workspace)
      : p_(product), m_panels_(panels_of(p_.m)), n_panels_(panels_of(p_.n)) {
    const std::int64_t passes = (p_.k + k_limit - 1) / k_limit;
    k_chunk_ = steps_of((p_.k + passes - 1) / passes) * 32;
    m_chunk_ = std::clamp<std::int64_t>(a_limit_bytes / panel_bytes(), 1, most_panels);
    n_chunk_ = std::clamp<std::int64_t>(b_limit_bytes / panel_bytes(), 1, n_panels_);
    threads_ = p_.m * p_.n * p_.k < 64 * 1024 ? 1 : workspace.threads();
    progress_ = std::vector<Progress>(static_cast<std::size_t>(threads_));
    const bool kept = passes > 1;
    const std::int64_t b_bytes = n_chunk_ * panel_bytes();
    const std::int64_t sums_bytes = kept ? m_panels_ * n_panels_ * block_bytes : 0;
    a_bytes_ = m_chunk_ * panel_bytes();
    of_thread_ = a_bytes_ + BlockMultiplier::ring_blocks(m_chunk_) * block_bytes;
    b_ = static_cast<char*>(static_cast<void*>(workspace.shared((b_bytes + sums_bytes + threads_ * of_thread_) / 4)));
    kept_sums_ = kept ? b_ + b_bytes : nullptr;
    thread_memory_ = b_ + b_bytes + sums_bytes;
  }

  void operator()() {
#pragma omp parallel num_threads(threads_)
    {
      const TileConfiguration configuration;
      std::int64_t done = 0;
      for (std::int64_t k = 0; k < p_.k; k += k_chunk_) {
        for (std::int64_t n = 0; n < n_panels_; n += n_chunk_, done += n_chunk_) {
          pass(k, n, std::min(n_chunk_, n_panels_ - n), done);
        }
      }
    }
  }

 private:
  /// Elements [k, k + k_chunk) of the sums, for n_count panels of columns. On every thread; `done` counts panels of
  /// earlier passes. Each thread has a share of the rows, and packs a share of B's panels when it first comes to them.
  /// It begins with its own share, so that the others' are packed when it needs them. With few rows, threads share
  /// columns.
  void pass(std::int64_t k, std::int64_t n, std::int64_t n_count, std::int64_t done) {
    const std::int64_t depth = std::min(k_chunk_, p_.k - k), thread = omp_get_thread_num();
    const std::int64_t threads = omp_get_num_threads();
    const std::int64_t own_first = n_count * thread / threads, own_end = n_count * (thread + 1) / threads;
    const bool by_rows = m_panels_ >= 2 * threads;
    const std::int64_t m_first = by_rows ? m_panels_ * thread / threads : 0;
    const std::int64_t m_end = by_rows ? m_panels_ * (thread + 1) / threads : m_panels_;
    const std::int64_t n_used = by_rows ? n_count : own_end - own_first;
    char* memory = thread_memory_ + thread * of_thread_;
    BlockMultiplier multiplier(p_, memory + a_bytes_, BlockMultiplier::ring_blocks(m_chunk_));
    BlockMultiplier::Sums sums{.kept_stride = n_panels_ * block_bytes,
                               .continued = k > 0,
                               .last = k + depth == p_.k,
                               .accumulate = p_.accumulate};
    for (std::int64_t m = m_first; m < m_end; m += m_chunk_) {
      const std::int64_t m_count = std::min(m_chunk_, m_end - m);
      const PanelsOfA a = panels_of_a(m, m_count, k, depth, memory);
      for (std::int64_t used = 0; used < n_used; ++used) {
        const std::int64_t j = (own_first + used) % n_count;
        if (m == m_first && used < own_end - own_first) {
          pack_b(n + j, k, depth, b_of(j));
          progress_[static_cast<std::size_t>(thread)].packed.store(done + used + 1, std::memory_order_release);
        } else if (m == m_first) {
          wait_for(j, n_count, done, threads);
        }
        if (kept_sums_ != nullptr) sums.kept = kept_sums_ + (m * n_panels_ + n + j) * block_bytes;
        multiplier.column(a, m_count, b_of(j), steps_of(depth), m, n + j, sums);
      }
    }
    multiplier.complete();
#pragma omp barrier  // before B's memory is written again
  }

  /// Until panel j of this pass has been packed by the thread whose share it is in.
  void wait_for(std::int64_t j, std::int64_t n_count, std::int64_t done, std::int64_t threads) const {
    std::int64_t owner = 0;
    while (n_count * (owner + 1) / threads <= j) ++owner;
    const std::int64_t wanted = done + j - n_count * owner / threads + 1;
    const auto& packed = progress_[static_cast<std::size_t>(owner)].packed;
    for (int spins = 0; packed.load(std::memory_order_acquire) < wanted; ++spins) {
      spins < 4096 ? _mm_pause() : std::this_thread::yield();
    }
  }

  char* b_of(std::int64_t panel) const {
    return b_ + panel * panel_bytes();
  }
  std::int64_t panel_bytes() const {
    return k_chunk_ * panel_width * 2;
  }

  void pack_b(std::int64_t panel, std::int64_t k, std::int64_t depth, char* to) const {
    const std::int64_t first = panel * panel_width, count = std::min(panel_width, p_.n - first);
    for (std::int64_t p = 0; p < depth; p += 32, to += step_bytes) {
      const std::int64_t left = std::min<std::int64_t>(32, depth - p);
      p_.b_transposed ? pack_columns_transposed(p_.b + first * p_.b_stride + k + p, p_.b_stride, count, left, to)
                      : pack_columns(p_.b + (k + p) * p_.b_stride + first, p_.b_stride, count, left, to);
    }
  }

  /// A's panels where they lie, or packed into `memory`: parts of panels, and rows a multiple of 4 KiB apart, which
  /// would all fall into the same few sets of the caches.
  PanelsOfA panels_of_a(std::int64_t m, std::int64_t m_count, std::int64_t k, std::int64_t depth, char* memory) const {
    PanelsOfA panels;
    const std::int64_t row_bytes = p_.a_stride * 2;
    for (std::int64_t i = 0; i < m_count; ++i) {
      const std::int64_t first = (m + i) * panel_width, count = std::min(panel_width, p_.m - first);
      PanelOfA& panel = panels[static_cast<std::size_t>(i)];
      const BFloat16* at = p_.a + first * p_.a_stride + k;
      if (count == panel_width && depth % 32 == 0 && row_bytes % 4096 != 0) {
        panel = {static_cast<const char*>(static_cast<const void*>(at)), row_bytes, 64, 16 * row_bytes};
        continue;
      }
      char* packed = memory + i * panel_bytes();
      panel = packed_panel(packed);
      for (std::int64_t p = 0; p < depth; p += 32, packed += step_bytes) {
        pack_rows(at + p, p_.a_stride, count, std::min<std::int64_t>(32, depth - p), packed);
      }
    }
    return panels;
  }

  struct alignas(64) Progress {
    std::atomic<std::int64_t> packed = 0;  // panels of B, counted through all passes
  };
  const AmxProduct& p_;
  std::int64_t m_panels_, n_panels_, k_chunk_, m_chunk_, n_chunk_, a_bytes_, of_thread_;
  int threads_;
  std::vector<Progress> progress_;         // of each thread
  char *b_, *kept_sums_, *thread_memory_;  // kept: sums of several passes; null where one is enough
};

}  // namespace

void multiply(const AmxProduct& product, Workspace& workspace) {
  if (product.m == 0 || product.n == 0 || product.k == 0) return;
  Run(product, workspace)();
}

}  // namespace babelring::cpu
