#include "nmt/ops/layer_norm.h"

#include "nmt/ops/check.h"

namespace babelring {

void LayerNormForward::check() const {
  const OpCheck check(name);
  const Field input{"x", x};
  check.rank(input, 2);
  check.floating(input);
  check.at_least("width of x", x.shape[1], 1);
  for (const Field& field : {Field{"gain", gain}, Field{"bias", bias}}) {
    check.shape(field, {x.shape[1]}, input);
    check.type(field, DType::f32);
  }
  for (const Field& field : {Field{"mean", mean}, Field{"rstd", rstd}}) {
    check.shape(field, {x.shape[0]}, input);
    check.type(field, DType::f32);
    check.distinct(field, {input, {"y", y}, {"gain", gain}, {"bias", bias}});
  }
  check.distinct({"mean", mean}, {{"rstd", rstd}});
  check.shape({"y", y}, x.shape, input);
  check.same_type({"y", y}, input);
  check.contiguous({input, {"y", y}});
  check.same_or_distinct({"y", y}, {input});
  check.distinct({"y", y}, {{"gain", gain}, {"bias", bias}});
  check.range("eps", eps, 0, 1);
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
  for (const Field& field : {Field{"mean", mean}, Field{"rstd", rstd}}) {
    check.shape(field, {dy.shape[0]}, gradient);
    check.type(field, DType::f32);
  }
  for (const Field& field : {Field{"gain", gain}, Field{"dgain", dgain}, Field{"dbias", dbias}}) {
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
  check.distinct({"dgain", dgain}, {{"dbias", dbias}, {"gain", gain}, gradient, {"dx", dx}, {"x", x}});
  check.distinct({"dbias", dbias}, {{"gain", gain}, gradient, {"dx", dx}, {"x", x}});
}

}  // namespace babelring
