#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "nmt/ops/adam.h"
#include "nmt/ops/cpu/cpu_context.h"
#include "nmt/ops/cpu/kernels/lanes.h"

namespace babelring::cpu::BABELRING_KERNEL_SET {
namespace {

/// How AdamUpdate counts its changes, row by row.

/// Counts nothing, in ranges that begin at multiples of lane_count.
struct NoCounter {
  /// True if lanes that begin at element i begin at a multiple of lane_count.
  static constexpr bool line_begins(std::int64_t) { return true; }
  template <class Which>
  [[gnu::always_inline]] void count(const Vec16f&, const Vec16f&, const Vec16f&, Which) {}
};

/// Counts nothing, for padding between rows, which begins anywhere.
struct PaddingCounter : NoCounter {
  static constexpr bool line_begins(std::int64_t i) { return i % lane_count == 0; }
};

/// Sums over a piece of a row.
class PieceCounter {
 public:
  /// `copies`: masters have bf16 copies.
  explicit PieceCounter(bool copies) : copies_(copies) {}

  static constexpr bool line_begins(std::int64_t i) { return i % lane_count == 0; }
  /// Masters before and after the update, and their gradients.
  template <class Which>
  [[gnu::always_inline]] void count(const Vec16f& before, const Vec16f& after, const Vec16f& gradient, Which mask) {
    const std::uint32_t lanes = lanes_of(mask), changed = different_lanes(before, after) & lanes;
    changed_elements_ += std::popcount(changed);
    touched_ |= nonzero_lanes(gradient) & lanes;
    visible_ |= copies_ ? different_lanes(as_stored<BFloat16>(before), as_stored<BFloat16>(after)) & lanes : changed;
    const Vec16f difference = select(mask, after - before);
    change_ = multiply_add(difference, difference, change_);
    weight_ = multiply_add(before, before, weight_);
  }
  RowPart sums() const {
    RowPart part;
    part.change = static_cast<double>(sum_of_lanes(change_));
    part.weight = static_cast<double>(sum_of_lanes(weight_));
    part.changed_elements = changed_elements_;
    part.visible = visible_ != 0 ? 1 : 0;
    part.touched = touched_ != 0 ? 1 : 0;
    return part;
  }

 private:
  bool copies_;
  std::int32_t changed_elements_ = 0;
  std::uint32_t visible_ = 0, touched_ = 0;
  Vec16f change_ = broadcast(0), weight_ = broadcast(0);
};

/// Calls body(piece) for the pieces of a block.
template <class Body>
void for_pieces(const RowCounters& rows, std::int64_t block, Body&& body) {
  const auto* blocks = rows.blocks.as<std::int32_t>();
  const auto* pieces = rows.pieces.as<RowPiece>();
  for (std::int32_t piece = blocks[block]; piece < blocks[block + 1]; ++piece) body(pieces[piece]);
}

inline void count_row(const RowCounters& rows, std::int32_t row, const RowPart& sums) {
  count_update(rows.counts.as<RowCount>()[row], sums, std::sqrt(sums.change / sums.weight));
}

/// Counts a row whose last piece this is. The other pieces may be finished at the same time, also by other processes.
inline void finish_piece(const RowCounters& rows, const RowPiece& piece, const RowPart& sums) {
  if (piece.parts == 1) return count_row(rows, piece.row, sums);
  RowPart* parts = rows.parts.as<RowPart>() + piece.first_part;
  parts[piece.part].set(sums);
  const std::atomic_ref<std::int32_t> arrived(parts->arrived);
  if (arrived.fetch_add(1, std::memory_order_acq_rel) + 1 < piece.parts) return;
  RowPart row = parts[0];
  for (std::int32_t part = 1; part < piece.parts; ++part) row.add(parts[part]);
  count_row(rows, piece.row, row);
  arrived.store(0, std::memory_order_relaxed);
}

constexpr std::int64_t block = SquaredNorm::block;  // elements that a thread takes at a time

/// Calls body(first, count) for the blocks of `count` elements.
template <class Body>
void for_blocks(std::int64_t count, CpuContext& context, Body&& body) {
  const std::int64_t blocks = SquaredNorm::blocks(count);
#pragma omp parallel for schedule(static) num_threads(context.threads_for(count))
  for (std::int64_t b = 0; b < blocks; ++b) body(b * block, std::min(block, count - b * block));
}

/// Calls body(first, elements, group) for the stretches of `count` elements from `begin` on that have one group and are
/// not frozen.
template <class Body>
void for_groups(const AdamUpdate& op, std::int64_t begin, std::int64_t count, Body&& body) {
  if (!op.group) return body(begin, count, AdamUpdate::Group{.weight_decay = op.weight_decay});
  const auto* index = op.group.as<std::int32_t>();
  const auto* groups = op.groups.as<AdamUpdate::Group>();
  const std::int64_t end = begin + count;
  for (std::int64_t first = begin, next = begin; first < end; first = next) {
    const std::int32_t group = index[first / AdamUpdate::group_block];
    while (next < end && index[next / AdamUpdate::group_block] == group) next += AdamUpdate::group_block;
    if (group != AdamUpdate::frozen) body(first, std::min(next, end) - first, groups[group]);
  }
}

/// Where the rounded masters go: nowhere in f32 mode; past the caches where lines are whole.
class Compute {
 public:
  explicit Compute(const Tensor& compute)
      : values_(compute ? compute.as<BFloat16>() : nullptr),
        aligned_(reinterpret_cast<std::uintptr_t>(values_) % (lane_count * sizeof(BFloat16)) == 0) {}
  /// `line_begins`: i is a multiple of lane_count.
  template <class Which>
  void store(std::int64_t i, Vec16f master, Which mask, bool line_begins) const {
    if (values_ == nullptr) return;
    if constexpr (std::is_same_v<Which, AllLanes>) {
      if (aligned_ && line_begins) return stream_lanes(values_ + i, master);
    }
    store_lanes(values_ + i, master, mask);
  }

 private:
  BFloat16* values_;
  bool aligned_;
};

/// The scalars of the formula, folded: direction = m' / (sqrt(v' v_correction) + eps), m' scaled by the rate too.
struct Step {
  Step(const AdamUpdate& op, float clip_factor)
      : scale(broadcast(clip_factor)),
        beta1(broadcast(op.beta1)),
        rest1(broadcast(1 - op.beta1)),
        beta2(broadcast(op.beta2)),
        rest2(broadcast(1 - op.beta2)),
        v_correction(broadcast(correction(op.beta2, op.step))),
        eps(broadcast(op.eps)),
        average_rate(broadcast(op.average_rate)) {}

  static float correction(float beta, std::int64_t step) {
    return static_cast<float>(1 / (1 - std::pow(static_cast<double>(beta), static_cast<double>(step))));
  }
  Vec16f scale, beta1, rest1, beta2, rest2, v_correction, eps, average_rate;
};

/// The scalars that differ between groups: master' = rate direction + keep master.
struct GroupStep {
  GroupStep(const AdamUpdate& op, const AdamUpdate::Group& group)
      : rate(broadcast(-op.learning_rate * group.rate_factor * Step::correction(op.beta1, op.step))),
        keep(broadcast(1 - op.learning_rate * group.rate_factor * group.weight_decay)) {}

  Vec16f rate, keep;
};

/// NaN: skip the update.
float clip_factor(const AdamUpdate& op) {
  if (!op.squares) return 1;
  const std::span sums(op.squares.as<float>(), static_cast<std::size_t>(op.squares.shape.elements()));
  return AdamUpdate::clip_factor(SquaredNorm::norm(sums), op.clip_norm);
}

/// The op's arrays and scalars.
class AdamPass {
 public:
  AdamPass(const AdamUpdate& op, float factor)
      : op_(op),
        masters_(op.master.as<float>()),
        first_(op.m.as<float>()),
        second_(op.v.as<float>()),
        average_(op.average ? op.average.as<float>() : nullptr),
        gradient_(op.gradient.as<float>()),
        compute_(op.compute),
        step_(op, factor) {}

  /// Updates `count` elements from `begin` on and shows them to the counter.
  template <class Counter>
  void update(std::int64_t begin, std::int64_t count, Counter& counter) const {
    if (count == 0) return;
    for_groups(op_, begin, count, [&](std::int64_t from, std::int64_t elements, const AdamUpdate::Group& group) {
      const GroupStep group_step(op_, group);
      const AdamPass pass = *this;  // copies that no store to the arrays can change stay in registers
      Counter sums = counter;
      const auto update_all = [&](auto averages) {
        for_lanes(elements, [&](std::int64_t place, auto mask) {
          pass.update_lanes<averages.value>(from + place, mask, group_step, sums);
        });
      };
      if (average_ != nullptr) {
        update_all(std::true_type());
      } else {
        update_all(std::false_type());
      }
      counter = sums;
    });
  }

 private:
  template <bool averages, class Which, class Counter>
  [[gnu::always_inline]] void update_lanes(std::int64_t i, Which mask, const GroupStep& group, Counter& counter) const {
    const Vec16f gradient = load_lanes(gradient_ + i, mask), g = gradient * step_.scale;
    const Vec16f m = fused(load_lanes(first_ + i, mask), step_.beta1, g * step_.rest1);
    const Vec16f v = fused(load_lanes(second_ + i, mask), step_.beta2, g * g * step_.rest2);
    store_lanes(first_ + i, m, mask);
    store_lanes(second_ + i, v, mask);
    const Vec16f direction = m / (square_root(v * step_.v_correction) + step_.eps);
    const Vec16f before = load_lanes(masters_ + i, mask);
    const Vec16f master = fused(direction, group.rate, before * group.keep);
    store_lanes(masters_ + i, master, mask);
    compute_.store(i, master, mask, counter.line_begins(i));
    if constexpr (averages) {
      const Vec16f average = load_lanes(average_ + i, mask);
      store_lanes(average_ + i, fused(master - average, step_.average_rate, average), mask);
    }
    counter.count(before, master, gradient, mask);
  }

  const AdamUpdate& op_;
  float *masters_, *first_, *second_, *average_;
  const float* gradient_;
  Compute compute_;
  Step step_;
};

/// Sums of squares of the blocks of `count` values that value(i, mask) gives, each asked for once.
template <class Value>
void find_norms(std::int64_t count, CpuContext& context, const Tensor& norms, Value&& value) {
  constexpr std::int64_t run_elements = 512;  // summed in f32, the rest in double
  for_blocks(count, context, [&](std::int64_t begin, std::int64_t elements) {
    double sum = 0;
    for (std::int64_t first = 0; first < elements; first += run_elements) {
      Vec16f squares = broadcast(0);
      for_lanes(std::min(run_elements, elements - first), [&](std::int64_t i, auto mask) {
        const Vec16f some = value(begin + first + i, mask);
        squares = multiply_add(some, some, squares);
      });
      sum += static_cast<double>(sum_of_lanes(squares));
    }
    norms.as<float>()[begin / block] = static_cast<float>(sum);
  });
}

}  // namespace

void run(const AdamUpdate& op, CpuContext& context) {
  const float factor = clip_factor(op);
  if (std::isnan(factor)) return;
  const AdamPass pass(op, factor);
  for_blocks(op.master.shape.elements(), context, [&](std::int64_t begin, std::int64_t count) {
    if (!op.rows) {
      NoCounter none;
      return pass.update(begin, count, none);
    }
    const bool copies = static_cast<bool>(op.compute);
    for_pieces(op.rows, begin / block, [&](const RowPiece& piece) {
      PieceCounter counter(copies);
      PaddingCounter none;
      pass.update(begin + piece.begin, piece.count, counter);
      pass.update(begin + piece.begin + piece.count, piece.padding, none);
      finish_piece(op.rows, piece, counter.sums());
    });
  });
}

void run(const SquaredNorm& op, CpuContext& context) {
  const auto* x = op.x.as<float>();
  find_norms(op.x.shape.elements(), context, op.sums,
             [x](std::int64_t i, auto mask) { return load_lanes(x + i, mask); });
}

void run(const SumWithNorm& op, CpuContext& context) {
  std::vector<const float*> parts;
  for (const ConstTensor& part : op.parts) parts.push_back(part.as<float>());
  auto* sums = op.sum.as<float>();
  find_norms(op.sum.shape.elements(), context, op.norms, [&parts, sums](std::int64_t i, auto mask) {
    Vec16f sum = load_lanes(parts[0] + i, mask);
    for (std::size_t part = 1; part < parts.size(); ++part) sum = sum + load_lanes(parts[part] + i, mask);
    store_lanes(sums + i, sum, mask);
    return sum;
  });
}

}  // namespace babelring::cpu::BABELRING_KERNEL_SET
