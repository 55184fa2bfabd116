#pragma once

#include <cstdint>
#include <string_view>

#include "nmt/core/random.h"
#include "nmt/core/tensor.h"

namespace babelring {

/// y = dropout(scale * table[id] + P(position)), with sinusoids P(p)[2i] = sin(p / 10000^(2i/width)) and
/// P(p)[2i+1] = cos(the same).  Source: Vaswani et al. 2017, 3.4 and 3.5.
struct EmbeddingForward {
  ConstTensor ids;        // [rows] i32, each in [0, vocabulary)
  ConstTensor positions;  // [rows] i32, each at least 0
  ConstTensor table;      // [vocabulary, width]
  Tensor y;               // [rows, width], same type as table
  float scale = 1;        // sqrt(width)
  DropoutKey key;
  static constexpr std::string_view name = "embedding_forward";
  void check() const;
  static void fields(auto& op, auto&& f) {
    f.reads("ids", op.ids).reads("positions", op.positions).reads("table", op.table).writes("y", op.y);
  }
  /// Each element of y reads one of the table.
  double bytes() const { return total_bytes({ids, positions, y, y}); }
};

/// Writes one column of P(0), P(1), … of EmbeddingForward into `table`, [positions, width].
void write_sinusoid_column(std::int64_t column, std::int64_t positions, std::int64_t width, float* table);

/// dtable[id] += scale * dropout(dy), added in row order.
struct EmbeddingBackward {
  ConstTensor ids;  // [rows] i32
  ConstTensor dy;   // [rows, width]
  Tensor dtable;    // [vocabulary, width] f32, added to
  float scale = 1;
  DropoutKey key;
  static constexpr std::string_view name = "embedding_backward";
  void check() const;
  static void fields(auto& op, auto&& f) { f.reads("ids", op.ids).reads("dy", op.dy).updates("dtable", op.dtable); }
  /// Each element of dy updates one of dtable.
  double bytes() const { return total_bytes({ids, dy}) + 8.0 * static_cast<double>(dy.shape.elements()); }
};

}  // namespace babelring
