#include "nmt/ops/adam.h"

#include "nmt/ops/check.h"

namespace babelring {

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
  check.range("beta1", beta1, 0, 1);
  check.range("beta2", beta2, 0, 1);
  check.range("eps", eps, 0, 1);
  check.finite("learning_rate", learning_rate);
  check.finite("gradient_scale", gradient_scale);
  check.finite("weight_decay", weight_decay);
  check.at_least("step", step, 1);
}

void SquaredNorm::check() const {
  const OpCheck check(name);
  check.rank({"x", x}, x.shape.rank());
  check.type({"x", x}, DType::f32);
  check.contiguous({{"x", x}});
  check.shape({"sum", sum}, {1}, {"x", x});
  check.type({"sum", sum}, DType::f32);
  check.distinct({"sum", sum}, {{"x", x}});
}

}  // namespace babelring
