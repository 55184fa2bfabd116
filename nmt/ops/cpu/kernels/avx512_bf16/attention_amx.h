#pragma once

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "nmt/core/random.h"
#include "nmt/core/tensor.h"
#include "nmt/ops/cpu/kernels/attention_tile.h"
#include "nmt/ops/cpu/kernels/avx512_bf16/attention_pack.h"

/// Shared by the forward and backward of attention in matrix tiles.
namespace babelring::cpu::BABELRING_KERNEL_SET {

static_assert(largest_row == 2 * widest_tiled_head);

/// 2^t to 1e-7, 0 far below 2^-126: minimax polynomial of degree 5 (relative, Remez) on the fraction of t.
inline __m512 exponential2(__m512 t) {
  const __m512 f = _mm512_reduce_ps(t, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
  __m512 p = _mm512_set1_ps(0.00187757667f);
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0.00898934009f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0.0558263181f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0.240153617f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0.693153073f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0.999999925f));
  return _mm512_scalef_ps(p, t);
}

/// Natural logarithm of positive normal numbers to 1e-7: 2 artanh((m - sqrt 2) / (m + sqrt 2)) + ln sqrt 2 for the
/// fraction m in [1, 2).
inline __m512 logarithm(__m512 x) {
  const __m512 exponent = _mm512_getexp_ps(x), m = _mm512_getmant_ps(x, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_src);
  const __m512 root = _mm512_set1_ps(1.41421356f);
  const __m512 z = _mm512_div_ps(_mm512_sub_ps(m, root), _mm512_add_ps(m, root)), square = _mm512_mul_ps(z, z);
  __m512 series = _mm512_set1_ps(2.0f / 9);
  series = _mm512_fmadd_ps(series, square, _mm512_set1_ps(2.0f / 7));
  series = _mm512_fmadd_ps(series, square, _mm512_set1_ps(2.0f / 5));
  series = _mm512_fmadd_ps(series, square, _mm512_set1_ps(2.0f / 3));
  series = _mm512_fmadd_ps(series, square, _mm512_set1_ps(2.0f));
  const __m512 of_fraction = _mm512_fmadd_ps(series, z, _mm512_set1_ps(0.346573590f));
  return _mm512_fmadd_ps(exponent, _mm512_set1_ps(0.693147181f), of_fraction);
}

/// Queries are worked on in blocks of 32, the keys below one another and the queries beside one another in two vectors
/// of 16. To make rows of the queries again, words of two keys are interleaved as the processor does it best, within
/// 128 bits; that leaves query i in row `block_row(i)` of a matmul.
inline constexpr std::int64_t block_queries = 32, block_stride = block_queries * sizeof(float);

inline std::int64_t block_row(std::int64_t query) {
  return (query >> 2 & 1) * 16 + (query >> 3) * 4 + (query & 3);
}

/// One block of a sentence's queries and the keys that any of them sees.
struct QueryBlock {
  QueryBlock(std::int64_t first_query, std::int64_t queries, std::int64_t keys, bool is_causal)
      : first(first_query),
        count(std::min(block_queries, queries - first_query)),
        visible_end(is_causal ? std::min(keys, first + count) : keys),
        unmasked_end(is_causal ? std::min(keys, first + 1) : keys),
        causal(is_causal) {}

  std::int64_t first, count;
  std::int64_t visible_end;   // keys seen by any query
  std::int64_t unmasked_end;  // keys seen by every query
  bool causal;

  /// Which of queries first + 16 row_tile ... see a key.
  __mmask16 seeing(std::int64_t key, std::int64_t row_tile) const {
    if (key >= visible_end) return 0;
    const std::int64_t hidden = causal ? std::clamp<std::int64_t>(key - first - 16 * row_tile, 0, 16) : 0;
    return static_cast<__mmask16>(0xffffU << hidden);
  }
};

/// Dropout bits of 16 queries, as DropoutKey defines them; one hash serves a pair of keys.
struct DropoutLanes {
  DropoutLanes(const DropoutKey& key, std::int64_t first_row)
      : threshold(_mm512_set1_epi32(static_cast<int>(key.threshold() << 16))) {
    alignas(64) std::array<std::uint32_t, 16> keys;
    for (std::int64_t i = 0; i < 16; ++i) keys[static_cast<std::size_t>(i)] = key.row_key(first_row + i);
    row_keys = _mm512_load_si512(keys.data());
  }

  /// DropoutKey's hash of a pair without its last step, which would only change the low halves: keeps_even takes it.
  __m512i hash(std::int64_t pair) const {
    const auto column = static_cast<std::uint32_t>(pair) * 0x9e3779b9U;
    __m512i x = _mm512_xor_si512(row_keys, _mm512_set1_epi32(static_cast<int>(column)));
    x = _mm512_xor_si512(x, _mm512_srli_epi32(x, 16));
    x = _mm512_mullo_epi32(x, _mm512_set1_epi32(0x7feb352d));
    x = _mm512_xor_si512(x, _mm512_srli_epi32(x, 15));
    return _mm512_mullo_epi32(x, _mm512_set1_epi32(static_cast<int>(0x846ca68bU)));
  }
  /// The even key's bits are the low half of x ^ x >> 16, compared where the odd key's are, in the high half.
  __mmask16 keeps_even(__m512i x) const { return keeps_odd(_mm512_xor_si512(x, _mm512_slli_epi32(x, 16))); }
  __mmask16 keeps_odd(__m512i x) const { return _mm512_cmpge_epu32_mask(x, threshold); }

  __m512i row_keys, threshold;
};

/// A pair of keys' values of 32 queries, as words in the order of block_row.
inline void store_pair(__m512i even, __m512i odd, std::int64_t pair, std::byte* packed_pairs) {
  std::byte* to = packed_pairs + pair / 16 * 2 * tile_bytes + pair % 16 * 64;
  _mm512_store_si512(to, _mm512_unpacklo_epi16(even, odd));
  _mm512_store_si512(to + tile_bytes, _mm512_unpackhi_epi16(even, odd));
}

/// Makes of what store_pair wrote of `chunks` x 32 keys the left factor of a matmul over the keys: 32 rows of queries;
/// tile (half, chunk) at (2 chunk + half) tiles.
inline void transpose_pairs(std::byte* packed_pairs, std::int64_t chunks) {
  for (std::int64_t tile = 0; tile < 2 * chunks; ++tile, packed_pairs += tile_bytes) {
    transpose_words(pointers({packed_pairs, 64, 16}, 0), 0, packed_pairs);
  }
}

inline __m512i to_bf16(__m512 low, __m512 high) {
  return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
}

/// Asks for the rows of the next task a few at a time while this one is computed: the caches serve a core's requests
/// one after another, so all at once they would stand in the way of this task's own.
class Prefetcher {
 public:
  /// At most 8 ranges; `bytes` of each row.
  void add(const Rows& rows, std::int64_t bytes, bool for_writing) {
    if (rows.count > 0) ranges_[filled_++] = {rows, bytes, for_writing};
  }
  void advance(std::int64_t rows) {
    if (current_ == filled_) return;
    Range& range = ranges_[current_];
    const std::int64_t now = std::min(rows, range.rows.count);
    range.for_writing ? ask<1>(range, now) : ask<0>(range, now);
    if (range.rows.count == 0) ++current_;
  }

 private:
  struct Range {
    Rows rows;
    std::int64_t bytes;
    bool for_writing;
  };

  template <int for_writing>
  static void ask(Range& range, std::int64_t rows) {
    const std::byte* first = range.rows.first;
    for (std::int64_t i = 0; i < rows; ++i, first += range.rows.stride) {
      for (std::int64_t at = 0; at < range.bytes; at += 64) __builtin_prefetch(first + at, for_writing);
    }
    range.rows.first = first;
    range.rows.count -= rows;
  }

  std::array<Range, 8> ranges_;
  std::size_t filled_ = 0, current_ = 0;
};

/// Where the rows of a matmul go, in bf16 and times a factor each.
struct OutRows {
  BFloat16* first;
  std::int64_t stride, count, width;  // in numbers
  const float* factors;               // [32]

  /// 32 columns of up to 32 rows.
  void store(const float* rows, bool by_block_row, std::int64_t first_row, std::int64_t column) const {
    const auto present = static_cast<__mmask32>(width - column >= 32 ? 0xffffffffU : (1U << (width - column)) - 1);
    const std::int64_t stored = std::min<std::int64_t>(32, count - first_row);
    BFloat16* to = first + first_row * stride + column;
    const auto row = [&](const float* from, std::int64_t i) {
      const __m512 factor = _mm512_set1_ps(factors[i]);
      const __m512 low = _mm512_mul_ps(_mm512_load_ps(from), factor);
      const __m512 high = _mm512_mul_ps(_mm512_load_ps(from + 16), factor);
      _mm512_mask_storeu_epi16(to + i * stride, present, to_bf16(low, high));
    };
    for (std::int64_t i = 0; i < stored; i += 4) {  // block_row leaves four neighbours together
      const float* from = rows + (by_block_row ? block_row(i) : i) * 32;
      const std::int64_t together = std::min<std::int64_t>(4, stored - i);
      if (together == 4) {
        row(from, i), row(from + 32, i + 1), row(from + 64, i + 2), row(from + 96, i + 3);
      } else {
        for (std::int64_t j = 0; j < together; ++j) row(from + 32 * j, i + j);
      }
    }
  }
};

/// A B, of up to 32 rows, to bf16 rows of a tensor.
struct RowsMatmul {
  std::int64_t columns, depth;  // extents in tiles; `columns` is even
  TileMatrix a, b;
  bool by_block_row;           // A's 32 rows are in the order of block_row()
  float* staging;              // [32, 32], overwritten
  std::int64_t first_row = 0;  // of the result
};

/// Computes the matmul; `prefetcher` advances meanwhile.
inline void multiply_to_rows(const RowsMatmul& matmul, Prefetcher& prefetcher, const OutRows& out) {
  auto* corner = reinterpret_cast<std::byte*>(matmul.staging);
  const bool two_rows = matmul.by_block_row || out.count - matmul.first_row > 16;
  TileMatrix b = matmul.b;
  for (std::int64_t j = 0; j < matmul.columns; j += 2, b.data += 2 * b.right) {
    if (two_rows) {
      multiply_tiles<2, 2>(matmul.depth, matmul.a, b, corner, 128);
    } else {
      multiply_tiles<1, 2>(matmul.depth, matmul.a, b, corner, 128);
    }
    prefetcher.advance(8);
    out.store(matmul.staging, matmul.by_block_row, matmul.first_row, j * 16);
  }
}

/// One sentence and head of an op, and the thread's scratch.
struct HeadTask {
  template <class Op>
  HeadTask(const Op& op, std::int64_t index, std::byte* thread_memory, Prefetcher& next_task)
      : memory(thread_memory),
        prefetcher(next_task),
        head(index % op.heads),
        width(op.q.shape[1] / op.heads),
        key(op.key) {
    const auto* q_at = op.q_offsets.template as<std::int32_t>() + index / op.heads;
    const auto* k_at = op.k_offsets.template as<std::int32_t>() + index / op.heads;
    first_query = q_at[0], queries = q_at[1] - q_at[0], first_key = k_at[0], keys = k_at[1] - k_at[0];
    key.key = derive_seed(op.key.key, static_cast<std::uint64_t>(head));
    row_bytes = blocks(width, 32) * 64;
  }

  Rows rows(const ConstTensor& tensor, std::int64_t first, std::int64_t count) const {
    const BFloat16* data = tensor.as<BFloat16>() + first * tensor.row_stride + head * width;
    return {reinterpret_cast<const std::byte*>(data), tensor.row_stride * 2, count};
  }
  /// The same in whole vectors, by a copy if need be.
  Rows whole_rows(const ConstTensor& tensor, std::int64_t first, std::int64_t count, std::int64_t scratch) const {
    const Rows found = rows(tensor, first, count);
    if (width % 32 == 0) return found;
    pack_rows(found, count, row_bytes, row_bytes - 2 * width, memory + scratch);
    return {memory + scratch, row_bytes, count};
  }
  OutRows out_rows(const Tensor& tensor, std::int64_t first, std::int64_t count, const float* factors) const {
    return {tensor.as<BFloat16>() + first * tensor.row_stride + head * width, tensor.row_stride, count, width, factors};
  }
  float* floats(std::int64_t place) const { return reinterpret_cast<float*>(memory + place); }
  void clear(const Tensor& tensor, std::int64_t first, std::int64_t count) const {
    const OutRows out = out_rows(tensor, first, count, nullptr);
    for (std::int64_t i = 0; i < count; ++i) std::fill_n(out.first + i * out.stride, width, BFloat16(0.0f));
  }

  std::byte* memory;
  Prefetcher& prefetcher;
  std::int64_t head, width, row_bytes, first_query, queries, first_key, keys;
  DropoutKey key;  // of this head
};

/// Places in a thread's scratch, in bytes.
class ScratchPlan {
 public:
  std::int64_t take(std::int64_t bytes) {
    const std::int64_t begin = total_;
    total_ += blocks(bytes, 64) * 64;
    return begin;
  }
  std::int64_t floats() const { return total_ / 4; }

 private:
  std::int64_t total_ = 0;
};

/// Calls compute for every sequence and head of the op, on all threads, each in its memory as `at` plans it, after
/// prefetch for the one that follows. Both are plain functions: lambdas would not be compiled for this file's target.
template <class Task, class Op, class Scratch>
void for_tasks(const Op& op, const Scratch& at, CpuContext& context, void (*prefetch)(const Task&),
               void (*compute)(const Task&)) {
  const std::int64_t tasks = (op.q_offsets.shape[0] - 1) * op.heads;
  const auto scratch = context.per_thread(at.floats());
  const std::int64_t run = run_of_tasks(tasks, op.heads, context.threads());
#pragma omp parallel num_threads(context.threads_for(2 * op.q.shape.elements()))
  {
    const TileConfiguration tiles;
    auto* memory = reinterpret_cast<std::byte*>(scratch.of_this_thread());
#pragma omp for schedule(dynamic, run)
    for (std::int64_t task = 0; task < tasks; ++task) {
      Prefetcher prefetcher;
      prefetch(Task(op, std::min(task + 1, tasks - 1), memory, at, prefetcher));
      compute(Task(op, task, memory, at, prefetcher));
    }
  }
}

}  // namespace babelring::cpu::BABELRING_KERNEL_SET
