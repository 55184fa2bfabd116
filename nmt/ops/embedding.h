#pragma once

#include <cstdint>
#include <string_view>

#include "nmt/core/random.h"
#include "nmt/core/tensor.h"

namespace babelring {

/// y = dropout(scale * table[id] + P(position)), with sinusoids P(p)[2i] = sin(p / 10000^(2i/D)) and
/// P(p)[2i+1] = cos(the same). Source: Vaswani et al. 2017, 3.4 and 3.5, where the divisor D is the width.
struct EmbeddingForward {
  ConstTensor ids;        // [rows] i32, each in [0, vocabulary)
  ConstTensor positions;  // [rows] i32, each at least 0
  ConstTensor table;      // [vocabulary, width]
  Tensor y;               // [rows, width], same type as table, or f32 of a quantized one
  float scale = 1;        // sqrt(width)
  DropoutKey key;
  std::int64_t divisor = 0;        // of positions; 0: width
  bool zero_start = false;         // rows at position 0 have zeros instead of their entry of the table
  bool sinusoids = true;           // false: P is 0
  QuantizedWeight quantized = {};  // instead of `table`
  const Shape& table_shape() const { return quantized ? quantized.shape : table.shape; }
  std::int64_t position_divisor() const { return divisor == 0 ? table_shape()[1] : divisor; }
  static constexpr std::string_view name = "embedding_forward";
  void check() const;
  static void fields(auto& op, auto&& f) {
    f.reads("ids", op.ids).reads("positions", op.positions).reads("table", op.table).writes("y", op.y);
    f.reads("elements", op.quantized.elements).reads("scales", op.quantized.scales).reads("sums", op.quantized.sums);
  }
  /// Each element of y reads one of the table.
  double bytes() const { return total_bytes({ids, positions, y, y}); }
};

/// Rotary positions: each row x of a head is turned by its position p, plane by plane. Of a head's d features, i < d/2
/// and i + d/2 span a plane:
///   y[i] = x[i] cos a - x[i + d/2] sin a,  y[i + d/2] = x[i + d/2] cos a + x[i] sin a,  a = p / 10000^(2i/d)
/// Then a product of two turned rows depends on the difference of their positions only. Source: Su et al. 2021,
/// "RoFormer", 3.2.2, where neighbours span planes; with halves, as in LLaMA, a head's features have another
/// order. The backward is the same op on the gradient with `inverse`, which turns back.
struct RotaryPositions {
  ConstTensor x;          // [rows, width]; may be strided
  ConstTensor positions;  // [rows] i32, each at least 0
  Tensor y;               // same shape and type as x; may be strided; may alias x
  int heads = 1;          // d = width / heads is even
  bool inverse = false;   // by -a
  static constexpr std::string_view name = "rotary_positions";
  void check() const;
  static void fields(auto& op, auto&& f) { f.reads("x", op.x).reads("positions", op.positions).writes("y", op.y); }
};

/// Writes one column of P(0), P(1), … of EmbeddingForward into `table`, [positions, width].
void write_sinusoid_column(std::int64_t column, std::int64_t positions, std::int64_t width, std::int64_t divisor,
                           float* table);

/// dtable[id] += scale * dropout(dy), added in row order.
struct EmbeddingBackward {
  ConstTensor ids;  // [rows] i32
  ConstTensor dy;   // [rows, width]
  Tensor dtable;    // [vocabulary, width] f32, added to
  float scale = 1;
  DropoutKey key;
  ConstTensor positions = {};  // [rows] i32: rows at position 0 add nothing, see zero_start; absent: all rows add
  static constexpr std::string_view name = "embedding_backward";
  void check() const;
  static void fields(auto& op, auto&& f) {
    f.reads("ids", op.ids).reads("dy", op.dy).reads("positions", op.positions).updates("dtable", op.dtable);
  }
  /// Each element of dy updates one of dtable.
  double bytes() const { return total_bytes({ids, dy}) + 8.0 * static_cast<double>(dy.shape.elements()); }
};

}  // namespace babelring
