#include <algorithm>
#include <cmath>
#include <type_traits>

#include "nmt/ops/attention.h"
#include "nmt/ops/cpu/kernels.h"
#include "nmt/ops/cpu/lanes.h"
#include "nmt/ops/cpu/vector_math.h"

namespace babelring::cpu {

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

KeyList list_of(const DecodeAttention& op, std::int64_t row) {
  return {op.key_rows.as<std::int32_t>() + row * op.key_rows.columns()};
}

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

/// Adds q's dot products with the rows to `dots`; `vectors` x 16 columns, the last 16 of them `last`.
template <int vectors, class Last, class T, class Place>
void add_dots(const T* q, const CachedRows<T, Place>& keys, Last last, float* dots) {
  Floats query[vectors];
  for (int c = 0; c + 1 < vectors; ++c) query[c] = load_lanes(q + 16 * c, AllLanes{});
  query[vectors - 1] = load_lanes(q + 16 * (vectors - 1), last);
  for (std::int64_t j = 0; j < keys.count; ++j) {
    const T* key = keys.row(j);
    Floats sum = query[vectors - 1] * load_lanes(key + 16 * (vectors - 1), last);
    for (int c = 0; c + 1 < vectors; ++c) sum = multiply_add(query[c], load_lanes(key + 16 * c, AllLanes{}), sum);
    dots[j] += sum_of_lanes(sum);
  }
}

/// out = factor * sum of weights[j] * row j.
template <int vectors, class Last, class T, class Place>
void weigh(const float* weights, float factor, const CachedRows<T, Place>& values, Last last, T* out) {
  Floats sum[vectors];
  for (Floats& part : sum) part = broadcast(0);
  for (std::int64_t j = 0; j < values.count; ++j) {
    const T* value = values.row(j);
    const Floats weight = broadcast(weights[j]);
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
  const Floats to_powers = broadcast(scale * log2_e);
  Floats largest = broadcast(-INFINITY), total = broadcast(0);
  for_lanes(count, [&](std::int64_t j, auto lanes) {
    largest = maximum(largest, only(lanes, load_lanes(p + j, lanes) * to_powers, broadcast(-INFINITY)));
  });
  largest = broadcast(largest_lane(largest));
  for_lanes(count, [&](std::int64_t j, auto lanes) {
    const Floats power = power_of_two(load_lanes(p + j, lanes) * to_powers - largest);
    total = total + only(lanes, power);
    store_lanes(p + j, power, lanes);
  });
  return sum_of_lanes(total);
}

/// `p`: room for every key.
template <class T, class Place>
void attend(const DecodeAttention& op, std::int64_t row, std::int64_t head, Place place, float* p) {
  const std::int64_t width = op.q.shape[1] / op.heads, column = head * width;
  const std::int64_t count = op.key_count.as<std::int32_t>()[row];
  const T* q = op.q.as<T>() + row * op.q.row_stride + column;
  const T* keys = op.keys.as<T>() + column;
  const T* values = op.values.as<T>() + column;
  T* out = op.out.as<T>() + row * op.q.shape[1] + column;
  std::fill_n(p, count, 0.0f);
  for_pieces(width, [&](std::int64_t at, auto vectors, auto last) {
    add_dots<vectors>(q + at, CachedRows<T, Place>{keys + at, op.keys.row_stride, count, place}, last, p);
  });
  const float total = count > 0 ? exponentiate(p, count, op.scale) : 1;
  for_pieces(width, [&](std::int64_t at, auto vectors, auto last) {
    const CachedRows<T, Place> rows{values + at, op.values.row_stride, count, place};
    weigh<vectors>(p, 1 / total, rows, last, out + at);
  });
}

}  // namespace

void run(const DecodeAttention& op, Workspace& workspace) {
  // Hypotheses of a sentence follow one another and read the same keys of the source: while these are in the first
  // cache.
  constexpr std::int64_t block = 8;
  const std::int64_t rows = op.q.shape[0], longest = largest_count(op), tasks = (rows + block - 1) / block * op.heads;
  const auto scratch = workspace.per_thread(longest);
  with_float_type(op.q.dtype, [&](auto tag) {
#pragma omp parallel for schedule(static) num_threads(workspace.threads_for(rows* op.q.shape[1] * longest))
    for (std::int64_t task = 0; task < tasks; ++task) {
      const std::int64_t first = task / op.heads * block, end = std::min(rows, first + block);
      for (std::int64_t row = first; row < end; ++row) {
        const std::int64_t head = task % op.heads;
        float* p = scratch.of_this_thread();
        op.key_rows ? attend<decltype(tag)>(op, row, head, list_of(op, row), p)
                    : attend<decltype(tag)>(op, row, head, KeyRange{op.key_begin.as<std::int32_t>()[row]}, p);
      }
    }
  });
}

}  // namespace babelring::cpu
