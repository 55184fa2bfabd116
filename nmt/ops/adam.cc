#include "nmt/ops/adam.h"

#include <fmt/format.h>

#include <cmath>
#include <numeric>

#include "nmt/ops/check.h"

namespace babelring {

void RowCounters::check(const OpCheck& check, std::int64_t range_blocks) const {
  const auto words_of = [&check](const Field& field, std::int64_t row_words) {
    check.rank(field, 2);
    if (field.tensor.shape[1] != row_words) {
      check.refuse(fmt::format("{} has shape {}, rows of {} words are needed", field.name, field.tensor.shape.text(),
                               row_words));
    }
    check.type(field, DType::i32);
    check.contiguous({field});
  };
  const Field pieces_field{"row_pieces", pieces}, counts_field{"row_counts", counts}, parts_field{"row_parts", parts};
  words_of(pieces_field, words<RowPiece>);
  words_of(counts_field, words<RowCount>);
  words_of(parts_field, words<RowPart>);
  check.shape({"row_blocks", blocks}, {range_blocks + 1}, pieces_field);
  check.type({"row_blocks", blocks}, DType::i32);
  check.distinct(counts_field, {parts_field, pieces_field, {"row_blocks", blocks}});
  check.distinct(parts_field, {pieces_field, {"row_blocks", blocks}});
}

void AdamUpdate::check() const {
  const OpCheck check(name);
  const Field weights{"master", master};
  check.rank(weights, 1);
  check.type(weights, DType::f32);
  const Field others[] = {{"gradient", gradient}, {"m", m}, {"v", v}};
  for (const Field& field : others) {
    check.shape(field, master.shape, weights);
    check.type(field, DType::f32);
    check.distinct(field, {weights, {"compute", compute}});
  }
  check.distinct({"m", m}, {{"gradient", gradient}, {"v", v}});
  check.distinct({"v", v}, {{"gradient", gradient}});
  if (compute) {
    check.shape({"compute", compute}, master.shape, weights);
    check.type({"compute", compute}, DType::bf16);
    check.distinct({"compute", compute}, {weights});
  }
  if (average) {
    const Field mean{"average", average};
    check.shape(mean, master.shape, weights);
    check.type(mean, DType::f32);
    check.distinct(mean, {weights, {"gradient", gradient}, {"m", m}, {"v", v}, {"compute", compute}});
  }
  if (group) {
    check.shape({"group", group}, {group_blocks(master.shape.elements())}, weights);
    check.type({"group", group}, DType::i32);
    check.rank({"groups", groups}, 2);
    check.shape({"groups", groups}, {groups.shape[0], 2}, {"groups", groups});
    check.type({"groups", groups}, DType::f32);
    check.contiguous({{"groups", groups}});
  }
  if (squares) {
    check.rank({"squares", squares}, 1);
    check.type({"squares", squares}, DType::f32);
    for (const Field& updated : {weights, Field{"m", m}, Field{"v", v}, Field{"compute", compute}}) {
      check.distinct(updated, {{"squares", squares}});
    }
  }
  if (rows) rows.check(check, SquaredNorm::blocks(master.shape.elements()));
  check.range("beta1", beta1, 0, 1);
  check.range("beta2", beta2, 0, 1);
  check.range("eps", eps, 0, 1);
  check.finite("learning_rate", learning_rate);
  check.range("clip_norm", clip_norm, 0, std::numeric_limits<double>::max());
  check.finite("weight_decay", weight_decay);
  check.range("average_rate", average_rate, 0, 1);
  check.at_least("step", step, 1);
}

double SquaredNorm::norm(std::span<const float> sums) {
  return std::sqrt(std::accumulate(sums.begin(), sums.end(), 0.0));
}

void SquaredNorm::check() const {
  const OpCheck check(name);
  check.rank({"x", x}, x.shape.rank());
  check.type({"x", x}, DType::f32);
  check.contiguous({{"x", x}});
  check.shape({"sums", sums}, {blocks(x.shape.elements())}, {"x", x});
  check.type({"sums", sums}, DType::f32);
  check.distinct({"sums", sums}, {{"x", x}});
}

void SumWithNorm::check() const {
  const OpCheck check(name);
  check.at_least("number of parts", static_cast<std::int64_t>(parts.size()), 1);
  const Field result{"sum", sum};
  check.rank(result, 1);
  check.type(result, DType::f32);
  for (const ConstTensor& part : parts) {
    check.shape({"parts", part}, sum.shape, result);
    check.type({"parts", part}, DType::f32);
    check.same_or_distinct(result, {{"parts", part}});
    check.distinct({"norms", norms}, {{"parts", part}});
  }
  check.shape({"norms", norms}, {SquaredNorm::blocks(sum.shape.elements())}, result);
  check.type({"norms", norms}, DType::f32);
  check.distinct({"norms", norms}, {result});
}

}  // namespace babelring
