#include <algorithm>
#include <cmath>
#include <type_traits>

#include "nmt/ops/attention.h"
#include "nmt/ops/cpu/cpu_context.h"
#include "nmt/ops/cpu/kernels/lanes.h"
#include "nmt/ops/cpu/kernels/vector_math.h"

namespace babelring::cpu::BABELRING_KERNEL_SET {

namespace {

/// A row's keys, one after another in the cache.
struct KeyRange {
  std::int64_t begin;
  std::int64_t operator()(std::int64_t j) const { return begin + j; }
};

/// A row's keys, anywhere in the cache.
struct KeyList {
  const std::int32_t* rows;
  std::int64_t operator()(std::int64_t j) const { return rows[j]; }
};

/// Where the keys of each row are.
struct KeyRanges {
  const std::int32_t* begin;
  KeyRange of(std::int64_t row) const { return {begin[row]}; }
};
struct KeyLists {
  const std::int32_t* rows;
  std::int64_t length;
  KeyList of(std::int64_t row) const { return {rows + row * length}; }
};

std::int64_t largest_count(const DecodeAttention& op) {
  const auto* count = op.key_count.as<std::int32_t>();
  return op.q.shape[0] == 0 ? 0 : *std::max_element(count, count + op.q.shape[0]);
}

/// A row's keys or values of one head, or of a piece of it; the cache's first row is at `first`.
template <class T, class Place>
struct CachedRows {
  const T* first;
  std::int64_t stride, count;
  Place place;
  const T* row(std::int64_t j) const { return first + place(j) * stride; }
};

/// Prefetches whole rows into the second-level cache, a piece at a time, while others are read. A row's keys are
/// scattered over memory, so the processor does not prefetch them by itself, and each head would wait for its own
/// lines.
template <class T, class Place>
class RowFetcher {
 public:
  RowFetcher(const CachedRows<T, Place>& rows, std::int64_t width) : rows_(rows), width_(width), column_(width) {}
  /// The next `elements`, if there are any left.
  void fetch(std::int64_t elements) {
    constexpr std::int64_t line = 64 / sizeof(T);
    if (column_ >= width_) {
      if (next_ == rows_.count) return;
      row_ = rows_.row(next_++), column_ = 0;
    }
    for (std::int64_t at = 0; at < elements; at += line) __builtin_prefetch(row_ + column_ + at, 0, 2);
    column_ += elements;
  }

 private:
  CachedRows<T, Place> rows_;
  std::int64_t width_, column_, next_ = 0;
  const T* row_ = nullptr;
};

/// Adds q's dot products with the rows to `dots`; `vectors` x 16 columns, the last 16 of them `last`. As many columns
/// of `next` are prefetched on the way.
template <int vectors, class Last, class T, class Place>
void add_dots(const T* q, const CachedRows<T, Place>& keys, RowFetcher<T, Place>& next, Last last, float* dots) {
  Vec16f query[vectors];
  for (int c = 0; c + 1 < vectors; ++c) query[c] = load_lanes(q + 16 * c, AllLanes{});
  query[vectors - 1] = load_lanes(q + 16 * (vectors - 1), last);
  for (std::int64_t j = 0; j < keys.count; ++j) {
    const T* key = keys.row(j);
    next.fetch(16 * vectors);
    Vec16f sum = query[vectors - 1] * load_lanes(key + 16 * (vectors - 1), last);
    for (int c = 0; c + 1 < vectors; ++c) sum = multiply_add(query[c], load_lanes(key + 16 * c, AllLanes{}), sum);
    dots[j] += sum_of_lanes(sum);
  }
}

/// out = factor * sum of weights[j] * row j; `next` as above.
template <int vectors, class Last, class T, class Place>
void weigh(const float* weights, float factor, const CachedRows<T, Place>& values, RowFetcher<T, Place>& next,
           Last last, T* out) {
  Vec16f sum[vectors];
  for (Vec16f& part : sum) part = broadcast(0);
  for (std::int64_t j = 0; j < values.count; ++j) {
    const T* value = values.row(j);
    next.fetch(16 * vectors);
    const Vec16f weight = broadcast(weights[j]);
    for (int c = 0; c + 1 < vectors; ++c) sum[c] = multiply_add(weight, load_lanes(value + 16 * c, AllLanes{}), sum[c]);
    sum[vectors - 1] = multiply_add(weight, load_lanes(value + 16 * (vectors - 1), last), sum[vectors - 1]);
  }
  for (int c = 0; c + 1 < vectors; ++c) store_lanes(out + 16 * c, sum[c] * broadcast(factor), AllLanes{});
  store_lanes(out + 16 * (vectors - 1), sum[vectors - 1] * broadcast(factor), last);
}

/// Calls body(first column, number of vectors as a constant, lanes of the last one) for pieces that fit registers.
template <class Body>
void for_pieces(std::int64_t width, Body&& body) {
  std::int64_t column = 0;
  for (; column + 64 <= width; column += 64) body(column, std::integral_constant<int, 4>{}, AllLanes{});
  if (column + 32 <= width) body(column, std::integral_constant<int, 2>{}, AllLanes{}), column += 32;
  if (column + 16 <= width) body(column, std::integral_constant<int, 1>{}, AllLanes{}), column += 16;
  if (column < width) body(column, std::integral_constant<int, 1>{}, FirstLanes(width - column));
}

/// Dot products to unnormalised probabilities; returns their sum.
float exponentiate(float* p, std::int64_t count, float scale) {
  constexpr float log2_e = 1.44269504f;
  const Vec16f to_powers = broadcast(scale * log2_e);
  Vec16f largest = broadcast(-INFINITY), total = broadcast(0);
#if defined(__AVX512F__)
  for_lanes(count, [&](std::int64_t j, auto mask) {
    largest = maximum(largest, select(mask, load_lanes(p + j, mask) * to_powers, broadcast(-INFINITY)));
  });
  largest = broadcast(largest_lane(largest));
#else
  // In arrays of lanes g++ 14.2 loses the largest at -O3 for AVX2, but not at -O2 or without strict aliasing.
  float most = -INFINITY;
  for (std::int64_t j = 0; j < count; ++j) most = std::max(most, p[j] * (scale * log2_e));
  largest = broadcast(most);
#endif
  for_lanes(count, [&](std::int64_t j, auto mask) {
    const Vec16f power = power_of_two(load_lanes(p + j, mask) * to_powers - largest);
    total = total + select(mask, power);
    store_lanes(p + j, power, mask);
  });
  return sum_of_lanes(total);
}

/// All heads of a row, while keys and values of the row `next` are prefetched; `p`: room for every key.
template <class T, class Places>
void attend(const DecodeAttention& op, std::int64_t row, std::int64_t next, Places places, float* p) {
  const std::int64_t width = op.q.shape[1] / op.heads;
  const auto* counts = op.key_count.as<std::int32_t>();
  const std::int64_t count = counts[row];
  const auto rows_of = [&](const ConstTensor& cache, std::int64_t index, std::int64_t column) {
    using Place = decltype(places.of(index));
    return CachedRows<T, Place>{cache.as<T>() + column, cache.row_stride, counts[index], places.of(index)};
  };
  RowFetcher next_keys(rows_of(op.keys, next, 0), op.q.shape[1]),
      next_values(rows_of(op.values, next, 0), op.q.shape[1]);
  for (std::int64_t column = 0; column < op.q.shape[1]; column += width) {
    const T* q = op.q.as<T>() + row * op.q.row_stride + column;
    T* out = op.out.as<T>() + row * op.q.shape[1] + column;
    std::fill_n(p, count, 0.0f);
    for_pieces(width, [&](std::int64_t at, auto vectors, auto last) {
      add_dots<vectors>(q + at, rows_of(op.keys, row, column + at), next_keys, last, p);
    });
    const float total = count > 0 ? exponentiate(p, count, op.scale) : 1;
    for_pieces(width, [&](std::int64_t at, auto vectors, auto last) {
      weigh<vectors>(p, 1 / total, rows_of(op.values, row, column + at), next_values, last, out + at);
    });
  }
}

template <class T, class Places>
void attend_all(const DecodeAttention& op, Places places, CpuContext& context) {
  const std::int64_t rows = op.q.shape[0], longest = largest_count(op);
  const auto scratch = context.per_thread(longest);
#pragma omp parallel for schedule(static) num_threads(context.threads_for(rows* op.q.shape[1] * longest))
  for (std::int64_t row = 0; row < rows; ++row) {
    attend<T>(op, row, std::min(row + 1, rows - 1), places, scratch.of_this_thread());
  }
}

}  // namespace

void run(const DecodeAttention& op, CpuContext& context) {
  with_float_type(op.q.dtype, [&](auto tag) {
    if (op.key_rows) {
      const KeyLists lists{op.key_rows.as<std::int32_t>(), op.key_rows.columns()};
      attend_all<decltype(tag)>(op, lists, context);
    } else {
      attend_all<decltype(tag)>(op, KeyRanges{op.key_begin.as<std::int32_t>()}, context);
    }
  });
}

}  // namespace babelring::cpu::BABELRING_KERNEL_SET
