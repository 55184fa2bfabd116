#pragma once

#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>

#include "nmt/ops/cpu/kernels/lanes.h"
#include "nmt/ops/row_counters.h"

/// How AdamUpdate counts its changes, row by row.
namespace babelring::cpu::BABELRING_KERNEL_SET {

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

}  // namespace babelring::cpu::BABELRING_KERNEL_SET
