#include "nmt/ops/embedding.h"

#include <fmt/format.h>

#include <cmath>

#include "base/failure.h"
#include "nmt/ops/check.h"

namespace babelring {

void EmbeddingForward::check() const {
  const OpCheck check(name);
  if (quantized) {
    check.quantized(quantized);
    if (table) check.refuse("table beside a quantized one");
    check.type({"y", y}, DType::f32);
  } else {
    check.rank({"table", table}, 2);
    check.floating({"table", table});
    check.same_type({"y", y}, {"table", table});
    check.contiguous({{"table", table}});
  }
  check.rank({"ids", ids}, 1);
  check.type({"ids", ids}, DType::i32);
  check.shape({"positions", positions}, ids.shape, {"ids", ids});
  check.type({"positions", positions}, DType::i32);
  check.shape({"y", y}, {ids.shape[0], table_shape()[1]}, {"ids", ids});
  check.contiguous({{"y", y}});
  check.distinct({"y", y}, {{"table", table}, {"ids", ids}, {"positions", positions}});
  check.finite("scale", scale);
  check.dropout(key);
  if (divisor < 0) fail("{}: divisor is {}, at least 0 is needed", name, divisor);
}

void EmbeddingBackward::check() const {
  const OpCheck check(name);
  check.rank({"dy", dy}, 2);
  check.floating({"dy", dy});
  check.shape({"ids", ids}, {dy.shape[0]}, {"dy", dy});
  check.type({"ids", ids}, DType::i32);
  check.rank({"dtable", dtable}, 2);
  check.shape({"dtable", dtable}, {dtable.shape[0], dy.shape[1]}, {"dy", dy});
  check.type({"dtable", dtable}, DType::f32);
  if (positions) {
    check.shape({"positions", positions}, ids.shape, {"ids", ids});
    check.type({"positions", positions}, DType::i32);
  }
  check.contiguous({{"dy", dy}, {"dtable", dtable}});
  check.distinct({"dtable", dtable}, {{"dy", dy}, {"ids", ids}});
  check.finite("scale", scale);
  check.dropout(key);
}

void RotaryPositions::check() const {
  const OpCheck check(name);
  check.rank({"x", x}, 2);
  check.floating({"x", x});
  check.shape({"positions", positions}, {x.shape[0]}, {"x", x});
  check.type({"positions", positions}, DType::i32);
  check.shape({"y", y}, x.shape, {"x", x});
  check.same_type({"y", y}, {"x", x});
  check.same_or_distinct({"y", y}, {{"x", x}});
  check.distinct({"y", y}, {{"positions", positions}});
  check.at_least("heads", heads, 1);
  if (x.shape[1] % (2 * static_cast<std::int64_t>(heads)) == 0) return;
  check.refuse(fmt::format("x {} has no {} heads of an even width", x.shape.text(), heads));
}

void write_sinusoid_column(std::int64_t column, std::int64_t positions, std::int64_t width, std::int64_t divisor,
                           float* table) {
  const std::int64_t pair = column / 2 * 2;
  const double frequency = std::pow(10000.0, -static_cast<double>(pair) / static_cast<double>(divisor));
  for (std::int64_t position = 0; position < positions; ++position) {
    const double angle = static_cast<double>(position) * frequency;
    table[position * width + column] = static_cast<float>(column % 2 == 0 ? std::sin(angle) : std::cos(angle));
  }
}

}  // namespace babelring
