#include "nmt/ops/layer_norm.h"

#include <fmt/format.h>

#include <string>

#include "nmt/ops/check.h"

namespace babelring {

namespace {

/// An empty tensor needs no data.
bool present(const Field& field) {
  return field.tensor || field.tensor.shape.elements() == 0;
}

/// Both are there, or neither, which is the norm by the root mean square.
void check_both_or_none(const OpCheck& check, const Field& one, const Field& other) {
  if (present(one) == present(other)) return;
  check.refuse(
      fmt::format("{} without {}", present(one) ? one.name : other.name, present(one) ? other.name : one.name));
}

/// Checks of the fields of both forward ops, except the aliasing of y; `input` gives the shape.
template <class Op>
void check_normalization(const OpCheck& check, const Op& op, const Field& input) {
  const Shape& shape = input.tensor.shape;
  check.rank(input, 2);
  check.floating(input);
  check.at_least(std::string("width of ") + std::string(input.name), shape[1], 1);
  const Field gain{"gain", op.gain}, bias{"bias", op.bias}, mean{"mean", op.mean}, rstd{"rstd", op.rstd}, y{"y", op.y};
  check_both_or_none(check, bias, mean);
  for (const Field& field : {gain, bias}) {
    if (!present(field)) continue;
    check.shape(field, {shape[1]}, input);
    check.type(field, DType::f32);
  }
  for (const Field& field : {mean, rstd}) {
    if (field.name == mean.name && !present(field)) continue;
    check.shape(field, {shape[0]}, input);
    check.type(field, DType::f32);
    check.distinct(field, {input, y, gain, bias});
  }
  check.distinct(mean, {rstd});
  check.shape(y, shape, input);
  check.same_type(y, input);
  check.contiguous({input, y});
  check.distinct(y, {gain, bias});
  check.range("eps", op.eps, 0, 1);
}

}  // namespace

void LayerNormForward::check() const {
  const OpCheck check(name);
  const Field input{"x", x};
  check_normalization(check, *this, input);
  check.same_or_distinct({"y", y}, {input});
}

void ResidualNormForward::check() const {
  const OpCheck check(name);
  const Field input{"residual", residual};
  check_normalization(check, *this, input);
  for (const Field& field : {Field{"branch", branch}, Field{"sum", sum}}) {
    check.shape(field, residual.shape, input);
    check.same_type(field, input);
    check.distinct(field, {{"y", y}, {"mean", mean}, {"rstd", rstd}});
  }
  check.contiguous({{"branch", branch}, {"sum", sum}});
  check.same_or_distinct({"sum", sum}, {input, {"branch", branch}});
  check.distinct({"sum", sum}, {{"gain", gain}, {"bias", bias}});
  check.distinct({"y", y}, {input});
  check.dropout(key);
}

void LayerNormBackward::check() const {
  const OpCheck check(name);
  const Field gradient{"dy", dy};
  check.rank(gradient, 2);
  check.floating(gradient);
  check.at_least("width of dy", dy.shape[1], 1);
  for (const Field& field : {Field{"x", x}, Field{"dx", dx}}) {
    check.shape(field, dy.shape, gradient);
    check.same_type(field, gradient);
  }
  check_both_or_none(check, {"dbias", dbias}, {"mean", mean});
  for (const Field& field : {Field{"mean", mean}, Field{"rstd", rstd}}) {
    if (field.name == "mean" && !present(field)) continue;
    check.shape(field, {dy.shape[0]}, gradient);
    check.type(field, DType::f32);
  }
  for (const Field& field : {Field{"gain", gain}, Field{"dgain", dgain}, Field{"dbias", dbias}}) {
    if (field.name == "dbias" && !present(field)) continue;
    check.shape(field, {dy.shape[1]}, gradient);
    check.type(field, DType::f32);
  }
  check.contiguous({gradient, {"x", x}, {"dx", dx}});
  if (accumulate) {
    check.distinct({"dx", dx}, {gradient});
  } else {
    check.same_or_distinct({"dx", dx}, {gradient});
  }
  check.distinct({"dx", dx}, {{"x", x}, {"gain", gain}, {"mean", mean}, {"rstd", rstd}});
  if (dbranch) {
    check.shape({"dbranch", dbranch}, dy.shape, gradient);
    check.same_type({"dbranch", dbranch}, gradient);
    check.contiguous({{"dbranch", dbranch}});
    check.distinct({"dbranch", dbranch},
                   {gradient, {"x", x}, {"dx", dx}, {"gain", gain}, {"mean", mean}, {"rstd", rstd}});
    check.distinct({"dbranch", dbranch}, {{"dgain", dgain}, {"dbias", dbias}});
    check.dropout(key);
  }
  if (dbranch_bias) {
    const Field sums{"dbranch_bias", dbranch_bias};
    if (!dbranch) check.refuse("dbranch_bias without dbranch");
    check.shape(sums, {dy.shape[1]}, gradient);
    check.type(sums, DType::f32);
    check.distinct(sums, {{"dgain", dgain}, {"dbias", dbias}, {"gain", gain}, {"dbranch", dbranch}});
    check.distinct(sums, {gradient, {"dx", dx}, {"x", x}});
  }
  check.distinct({"dgain", dgain}, {{"dbias", dbias}, {"gain", gain}, gradient, {"dx", dx}, {"x", x}});
  check.distinct({"dbias", dbias}, {{"gain", gain}, gradient, {"dx", dx}, {"x", x}});
}

}  // namespace babelring
