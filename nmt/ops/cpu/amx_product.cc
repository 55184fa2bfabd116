#include "nmt/ops/cpu/amx_product.h"

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "nmt/ops/cpu/amx.h"
#include "nmt/ops/cpu/amx_finish.h"
#include "nmt/ops/cpu/amx_pack.h"

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")

namespace babelring::cpu {

namespace {

constexpr std::int64_t block_bytes = 4096;       // 32 x 32 sums
constexpr std::int64_t block_row_bytes = 128;    // one of its rows
constexpr std::int64_t k_limit = 2048;           // of one pass over memory
constexpr std::int64_t steps_limit = 16;         // of one multiplication: 32 KiB of B stay in the first-level cache
constexpr std::int64_t a_limit_bytes = 1 << 20;  // of A's panels that a thread goes over again and again: half its L2
constexpr std::int64_t b_limit_bytes = 8 << 20;  // of packed panels that the threads share
constexpr std::int64_t most_panels = 64;

std::int64_t panels_of(std::int64_t count) {
  return (count + panel_width - 1) / panel_width;
}

/// 32 rows of A as tiles: where they are and how far apart.
struct PanelOfA {
  const char* at;
  std::int64_t row_bytes, next_step, second_tile;
};

/// sums (+)= 32 rows of A times a packed panel of B. `beside(step)` is called at each step of k: small work on earlier
/// or later blocks, which the processor does while the tiles multiply.
template <bool continued, class Beside>
void multiply(const PanelOfA& a, std::int64_t first_step, std::int64_t steps, const char* b, char* sums,
              Beside beside) {
  constexpr std::int64_t row_bytes = block_row_bytes;
  char* lower = sums + 16 * row_bytes;
  if constexpr (continued) {
    tile_load<0>(sums, row_bytes), tile_load<1>(sums + 64, row_bytes);
    tile_load<2>(lower, row_bytes), tile_load<3>(lower + 64, row_bytes);
  } else {
    tile_zero<0>(), tile_zero<1>(), tile_zero<2>(), tile_zero<3>();
  }
  const char* top = a.at + first_step * a.next_step;
  b += first_step * step_bytes;
  for (std::int64_t step = 0; step < steps; ++step, top += a.next_step, b += step_bytes) {
    tile_stream<4>(top, a.row_bytes);
    tile_load<6>(b, 64);
    tile_load<7>(b + tile_bytes, 64);
    tile_stream<5>(top + a.second_tile, a.row_bytes);
    tile_multiply<0, 4, 6>(), tile_multiply<1, 4, 7>();
    tile_multiply<2, 5, 6>(), tile_multiply<3, 5, 7>();
    beside();
  }
  tile_store<0>(sums, row_bytes), tile_store<1>(sums + 64, row_bytes);
  tile_store<2>(lower, row_bytes), tile_store<3>(lower + 64, row_bytes);
}

/// Fetches a rectangle of memory into the second-level cache, a little at a time.
class Prefetcher {
 public:
  Prefetcher() = default;
  /// `rows` runs of `row_bytes`, `stride_bytes` apart, in about `times` calls of some().
  Prefetcher(const void* first, std::int64_t rows, std::int64_t row_bytes, std::int64_t stride_bytes,
             std::int64_t times)
      : row_(static_cast<const char*>(first)), rows_(rows), row_bytes_(row_bytes), stride_(stride_bytes) {
    lines_ = rows > 0 ? (rows * ((row_bytes + 63) / 64) + times - 1) / times : 0;
  }
  void some() {
    for (std::int64_t i = 0; i < lines_ && rows_ > 0; ++i) {
      __builtin_prefetch(row_ + at_, 0, 2);
      if ((at_ += 64) < row_bytes_) continue;
      at_ = 0, row_ += stride_, --rows_;
    }
  }

 private:
  const char* row_ = nullptr;
  std::int64_t rows_ = 0, row_bytes_ = 0, stride_ = 0, lines_ = 0, at_ = 0;
};

/// One product while it runs.
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
    kept_sums_ = p_.c_type != DType::f32 && passes > 1;
    m_share_ = std::clamp<std::int64_t>(b_limit_bytes / panel_bytes(), 1, m_panels_);
    a_bytes_ = p_.a_transposed ? 0 : m_chunk_ * panel_bytes();
    const std::int64_t shared_a_bytes = p_.a_transposed ? m_share_ * panel_bytes() : 0;
    of_thread_ = a_bytes_ + (m_chunk_ + Finisher::waiting_blocks + 1) * block_bytes;
    const std::int64_t b_bytes = n_chunk_ * panel_bytes();
    const std::int64_t sums_bytes = kept_sums_ ? m_panels_ * n_panels_ * block_bytes : 0;
    b_ = static_cast<char*>(
        static_cast<void*>(workspace.shared((b_bytes + shared_a_bytes + sums_bytes + threads_ * of_thread_) / 4)));
    a_ = b_ + b_bytes;
    sums_ = a_ + shared_a_bytes;
    thread_memory_ = sums_ + sums_bytes;
  }

  void operator()() {
#pragma omp parallel num_threads(threads_)
    {
      const TileConfiguration configuration;
      std::int64_t done = 0;
      for (std::int64_t k = 0; k < p_.k; k += k_chunk_) {
        for (std::int64_t n = 0; n < n_panels_; n += n_chunk_, done += n_chunk_) {
          const std::int64_t n_count = std::min(n_chunk_, n_panels_ - n);
          p_.a_transposed ? transposed_pass(k, n, n_count) : pass(k, n, n_count, done);
        }
      }
    }
  }

 private:
  using Panels = std::array<PanelOfA, most_panels>;

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
    Finisher finisher(p_);
    std::int64_t turn = 0;  // blocks so far
    for (std::int64_t m = m_first; m < m_end; m += m_chunk_) {
      const std::int64_t m_count = std::min(m_chunk_, m_end - m), times = m_count * steps_of(depth);
      const Panels a = panels_of_a(m, m_count, k, depth);
      Prefetcher next_a = prefetch_a(m + m_count, std::min(m_chunk_, m_end - m - m_count), k, depth, times * n_used);
      for (std::int64_t used = 0; used < n_used; ++used) {
        const std::int64_t j = (own_first + used) % n_count;
        Prefetcher next_b;
        if (m == m_first && used < own_end - own_first) {
          pack_b(n + j, k, depth, b_of(j));
          progress_[static_cast<std::size_t>(thread)].packed.store(done + used + 1, std::memory_order_release);
          if (j + 1 < own_end) next_b = prefetch_b(n + j + 1, k, depth, times);
        } else if (m == m_first) {
          wait_for(j, n_count, done, threads);
        }
        if (m != m_first || used + 1 >= own_end - own_first) {
          next_b = Prefetcher(b_of((j + 1) % n_count), 1, panel_bytes(), panel_bytes(), times);
        }
        column(a, m, m_count, n + j, b_of(j), k, depth, turn, finisher, next_a, next_b);
        turn += m_count;
      }
    }
    finisher.complete();
    _mm_sfence();
#pragma omp barrier  // before B's memory is written again
  }

  /// The same where both operands must be turned: the threads pack all of B, then A some panels at a time, each its
  /// share of k, so that memory is read in its order, and mostly by the thread that wrote it.
  void transposed_pass(std::int64_t k, std::int64_t n, std::int64_t n_count) {
    const std::int64_t depth = std::min(k_chunk_, p_.k - k), thread = omp_get_thread_num();
    const std::int64_t threads = omp_get_num_threads(), steps = steps_of(depth);
    const std::int64_t first_step = steps * thread / threads, end_step = steps * (thread + 1) / threads;
    for (std::int64_t step = first_step; step < end_step; ++step) {
      pack_step(pack_columns, p_.b, p_.b_stride, p_.n, k + 32 * step, k + depth, n, n_count, b_ + step * step_bytes);
    }
    Finisher finisher(p_);
    std::int64_t turn = 0;
    for (std::int64_t share = 0; share < m_panels_; share += m_share_) {
      const std::int64_t count = std::min(m_share_, m_panels_ - share);
      for (std::int64_t step = first_step; step < end_step; ++step) {
        pack_step(pack_rows_transposed, p_.a, p_.a_stride, p_.m, k + 32 * step, k + depth, share, count,
                  a_ + step * step_bytes);
      }
#pragma omp barrier
      const bool by_rows = count >= 2 * threads;
      const std::int64_t m_first = by_rows ? count * thread / threads : 0;
      const std::int64_t m_end = by_rows ? count * (thread + 1) / threads : count;
      const std::int64_t n_first = by_rows ? 0 : n_count * thread / threads;
      const std::int64_t n_end = by_rows ? n_count : n_count * (thread + 1) / threads;
      for (std::int64_t m = m_first; m < m_end; m += m_chunk_) {
        const std::int64_t m_count = std::min(m_chunk_, m_end - m), times = m_count * steps;
        Panels a;
        for (std::int64_t i = 0; i < m_count; ++i) {
          a[static_cast<std::size_t>(i)] = {a_ + (m + i) * panel_bytes(), 64, step_bytes, tile_bytes};
        }
        const std::int64_t next_count = std::min(m_chunk_, m_end - m - m_count);
        Prefetcher next_a(a_ + (m + m_count) * panel_bytes(), next_count, panel_bytes(), panel_bytes(),
                          times * (n_end - n_first));
        for (std::int64_t j = n_first; j < n_end; ++j, turn += m_count) {
          Prefetcher next_b(b_of((j + 1) % n_count), 1, panel_bytes(), panel_bytes(), times);
          column(a, share + m, m_count, n + j, b_of(j), k, depth, turn, finisher, next_a, next_b);
        }
      }
      finisher.complete();
      _mm_sfence();
#pragma omp barrier  // before packed memory is written again
    }
  }

  /// One step of `count` panels of an operand whose rows in memory are elements of k, [k, end): `to` is the place in
  /// the first panel.
  template <class Pack>
  void pack_step(Pack pack, const BFloat16* from, std::int64_t stride, std::int64_t width, std::int64_t k,
                 std::int64_t end, std::int64_t panel, std::int64_t count, char* to) const {
    const BFloat16* first = from + k * stride + panel * panel_width;
    const std::int64_t depth = std::min<std::int64_t>(32, end - k);
    const std::int64_t columns = std::min(count * panel_width, width - panel * panel_width);
    Prefetcher next(first + 32 * stride, std::min<std::int64_t>(32, end - k - 32), columns * 2, stride * 2, count);
    for (std::int64_t i = 0; i < count; ++i, to += panel_bytes()) {
      pack(first + i * panel_width, stride, std::min(panel_width, columns - i * panel_width), depth, to);
      next.some();
    }
  }

  /// Until panel j of this pass has been packed by the thread whose share it is in.
  void wait_for(std::int64_t j, std::int64_t n_count, std::int64_t done, std::int64_t threads) const {
    std::int64_t owner = (j * threads + threads - 1) / n_count;
    while (n_count * owner / threads > j) --owner;
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
  char* memory_of_this_thread() const {
    return thread_memory_ + omp_get_thread_num() * of_thread_;
  }

  void pack_b(std::int64_t panel, std::int64_t k, std::int64_t depth, char* to) const {
    const std::int64_t first = panel * panel_width, count = std::min(panel_width, p_.n - first);
    for (std::int64_t p = 0; p < depth; p += 32, to += step_bytes) {
      const std::int64_t left = std::min<std::int64_t>(32, depth - p);
      p_.b_transposed ? pack_columns_transposed(p_.b + first * p_.b_stride + k + p, p_.b_stride, count, left, to)
                      : pack_columns(p_.b + (k + p) * p_.b_stride + first, p_.b_stride, count, left, to);
    }
  }

  /// What pack_b() will read.
  Prefetcher prefetch_b(std::int64_t panel, std::int64_t k, std::int64_t depth, std::int64_t times) const {
    const std::int64_t first = panel * panel_width, count = std::min(panel_width, p_.n - first);
    return p_.b_transposed ? Prefetcher(p_.b + first * p_.b_stride + k, count, depth * 2, p_.b_stride * 2, times)
                           : Prefetcher(p_.b + k * p_.b_stride + first, depth, count * 2, p_.b_stride * 2, times);
  }

  /// A's panels where they lie, or packed into this thread's memory. Rows a multiple of 4 KiB apart would all fall into
  /// the same few sets of the caches.
  Panels panels_of_a(std::int64_t m, std::int64_t m_count, std::int64_t k, std::int64_t depth) const {
    Panels panels;
    const std::int64_t row_bytes = p_.a_stride * 2, steps = steps_of(depth);
    char* packed = memory_of_this_thread();
    for (std::int64_t i = 0; i < m_count; ++i) {
      const std::int64_t first = (m + i) * panel_width, count = std::min(panel_width, p_.m - first);
      PanelOfA& panel = panels[static_cast<std::size_t>(i)];
      panel = {packed + i * panel_bytes(), 64, step_bytes, tile_bytes};
      const BFloat16* at = p_.a + first * p_.a_stride + k;
      if (count == panel_width && depth % 32 == 0 && row_bytes % 4096 != 0) {
        panel = {static_cast<const char*>(static_cast<const void*>(at)), row_bytes, 64, 16 * row_bytes};
        continue;
      }
      for (std::int64_t step = 0; step < steps; ++step) {
        const std::int64_t left = std::min<std::int64_t>(32, depth - 32 * step);
        pack_rows(at + 32 * step, p_.a_stride, count, left, packed + i * panel_bytes() + step * step_bytes);
      }
    }
    return panels;
  }

  /// What panels_of_a() will read for the next chunk.
  Prefetcher prefetch_a(std::int64_t m, std::int64_t m_count, std::int64_t k, std::int64_t depth,
                        std::int64_t times) const {
    if (m_count <= 0 || times <= 0) return {};
    const std::int64_t first = m * panel_width, count = std::min(m_count * panel_width, p_.m - first);
    return {p_.a + first * p_.a_stride + k, count, depth * 2, p_.a_stride * 2, times};
  }

  /// A chunk of A's panels times one panel of B.
  void column(const Panels& a, std::int64_t m, std::int64_t m_count, std::int64_t n, const char* b, std::int64_t k,
              std::int64_t depth, std::int64_t turn, Finisher& finisher, Prefetcher& next_a, Prefetcher& next_b) const {
    const std::int64_t steps = steps_of(depth);
    for (std::int64_t step = 0; step < steps; step += steps_limit) {
      const std::int64_t count = std::min(steps_limit, steps - step);
      const bool last = step + count == steps;
      const std::int64_t rows_a_step = (panel_width + count - 1) / count;
      for (std::int64_t i = 0; i < m_count; ++i) {
        char* sums = sums_of(m + i, n, turn + i);
        Prefetcher result = last ? prefetch_c(m + i, n, count) : Prefetcher();
        const auto beside = [&] {
          finisher.rows(rows_a_step);
          result.some();
          next_a.some();
          next_b.some();
        };
        finisher.turn();
        const PanelOfA& panel = a[static_cast<std::size_t>(i)];
        step > 0 || (kept_sums_ && k > 0) ? multiply<true>(panel, step, count, b, sums, beside)
                                          : multiply<false>(panel, step, count, b, sums, beside);
        if (!last || (kept_sums_ && k + depth < p_.k)) continue;
        const bool accumulate = p_.accumulate || (!kept_sums_ && k > 0);
        finisher.add({sums, (m + i) * panel_width, n * panel_width, accumulate});
      }
    }
  }

  /// The result's lines that a block will be written to.
  Prefetcher prefetch_c(std::int64_t m, std::int64_t n, std::int64_t times) const {
    const std::int64_t size = p_.c_type == DType::f32 ? 4 : 2, rows = std::min(panel_width, p_.m - m * panel_width);
    if (p_.stream) return {};
    const char* c = static_cast<const char*>(p_.c) + (m * p_.c_stride + n) * panel_width * size;
    return {c, rows, panel_width * size, p_.c_stride * size, times};
  }

  /// Where the sums of a block are. A thread's places go round, so that a block's are not written again while they
  /// wait.
  char* sums_of(std::int64_t m, std::int64_t n, std::int64_t turn) const {
    if (kept_sums_) return sums_ + (m * n_panels_ + n) * block_bytes;
    return memory_of_this_thread() + a_bytes_ + turn % (m_chunk_ + Finisher::waiting_blocks + 1) * block_bytes;
  }

  const AmxProduct& p_;
  std::int64_t m_panels_, n_panels_, k_chunk_, m_chunk_, n_chunk_, m_share_, a_bytes_, of_thread_;
  struct alignas(64) Progress {
    std::atomic<std::int64_t> packed = 0;  // panels of B, counted through all passes
  };
  int threads_;
  std::vector<Progress> progress_;  // of each thread
  bool kept_sums_;                  // sums of several passes wait in memory
  char *b_, *a_, *sums_, *thread_memory_;
};

}  // namespace

void run(const AmxProduct& product, Workspace& workspace) {
  if (product.m == 0 || product.n == 0 || product.k == 0) return;
  Run(product, workspace)();
}

}  // namespace babelring::cpu

#pragma GCC pop_options
