#include "nmt/ops/elementwise.h"

#include <fmt/format.h>

#include "nmt/ops/check.h"

namespace babelring {

void Dropout::check() const {
  const OpCheck check(name);
  check.rank({"x", x}, 2);
  check.floating({"x", x});
  check.shape({"y", y}, x.shape, {"x", x});
  check.same_type({"y", y}, {"x", x});
  check.same_or_distinct({"y", y}, {{"x", x}});
  check.dropout(key);
}

void ResidualDropout::check() const {
  const OpCheck check(name);
  check.rank({"residual", residual}, 2);
  check.floating({"residual", residual});
  for (const Field& field : {Field{"branch", branch}, Field{"y", y}}) {
    check.shape(field, residual.shape, {"residual", residual});
    check.same_type(field, {"residual", residual});
  }
  check.contiguous({{"residual", residual}, {"branch", branch}, {"y", y}});
  check.same_or_distinct({"y", y}, {{"residual", residual}, {"branch", branch}});
  check.dropout(key);
}

namespace {

void check_activation(const OpCheck& check, Activation activation) {
  if (activation > Activation::relu) return;
  check.refuse(fmt::format("activation is {}, swish, gelu or swiglu is needed", name_of(activation)));
}

/// A second operand or result like z, which swiglu has and the others have not.
void check_gated(const OpCheck& check, Activation activation, const Field& field, const Field& z) {
  if (activation != Activation::swiglu) {
    if (field.tensor) check.refuse(fmt::format("{} with {}, swiglu is needed", field.name, name_of(activation)));
    return;
  }
  check.shape(field, z.tensor.shape, z);
  check.same_type(field, z);
}

}  // namespace

void ActivationForward::check() const {
  const OpCheck check(name);
  check.rank({"z", z}, 2);
  check.floating({"z", z});
  check.shape({"y", y}, z.shape, {"z", z});
  check.same_type({"y", y}, {"z", z});
  check_activation(check, activation);
  check_gated(check, activation, {"up", up}, {"z", z});
  check.same_or_distinct({"y", y}, {{"z", z}, {"up", up}});
  check.dropout(key);
}

void ActivationBackward::check() const {
  const OpCheck check(name);
  check.rank({"z", z}, 2);
  check.floating({"z", z});
  for (const Field& field : {Field{"dy", dy}, Field{"dz", dz}}) {
    check.shape(field, z.shape, {"z", z});
    check.same_type(field, {"z", z});
  }
  check_activation(check, activation);
  for (const Field& field : {Field{"up", up}, Field{"dup", dup}}) check_gated(check, activation, field, {"z", z});
  check.same_or_distinct({"dz", dz}, {{"dy", dy}, {"z", z}});
  check.same_or_distinct({"dup", dup}, {{"dy", dy}, {"up", up}});
  check.distinct({"dz", dz}, {{"up", up}, {"dup", dup}});
  check.distinct({"dup", dup}, {{"z", z}});
  check.dropout(key);
}

void Cast::check() const {
  const OpCheck check(name);
  check.rank({"x", x}, x.shape.rank());
  check.floating({"x", x});
  check.shape({"y", y}, x.shape, {"x", x});
  check.floating({"y", y});
  check.contiguous({{"x", x}, {"y", y}});
  check.same_or_distinct({"y", y}, {{"x", x}});
}

void Fill::check() const {
  const OpCheck check(name);
  check.rank({"y", y}, y.shape.rank());
  check.floating({"y", y});
  check.contiguous({{"y", y}});
}

void Add::check() const {
  const OpCheck check(name);
  check.rank({"x", x}, x.shape.rank());
  check.floating({"x", x});
  check.shape({"y", y}, x.shape, {"x", x});
  check.same_type({"y", y}, {"x", x});
  check.contiguous({{"x", x}, {"y", y}});
  check.same_or_distinct({"y", y}, {{"x", x}});
}

}  // namespace babelring
