#include "nmt/ops/linear.h"

#include <fmt/format.h>

#include <array>

#include "nmt/ops/check.h"

namespace babelring {

std::string_view name_of(Activation activation) {
  constexpr std::array<std::string_view, 5> names = {"none", "relu", "swish", "gelu", "swiglu"};
  return names.at(static_cast<std::size_t>(activation));
}

namespace {

/// A matmul's result: the operands' type, or f32.
void check_result_type(const OpCheck& check, const Field& result, const Field& operand) {
  if (result.tensor.dtype != DType::f32) check.same_type(result, operand);
}

}  // namespace

void LinearForward::check() const {
  const OpCheck check(name);
  check.rank({"x", x}, 2);
  check.floating({"x", x});
  check.rank({"weight", weight}, 2);
  check.shape({"weight", weight}, {weight.shape[0], x.shape[1]}, {"x", x});
  check.same_type({"weight", weight}, {"x", x});
  check.contiguous({{"weight", weight}});
  if (packed != nullptr && (packed->shape != weight.shape || packed->dtype != weight.dtype)) {
    check.refuse(fmt::format("packed is of a weight {} {}, weight is {} {}", packed->shape.text(),
                             name_of(packed->dtype), weight.shape.text(), name_of(weight.dtype)));
  }
  if (bias) {
    check.shape({"bias", bias}, {weight.shape[0]}, {"weight", weight});
    check.type({"bias", bias}, DType::f32);
  }
  if (bias_copy) {
    if (!bias) check.refuse("bias_copy without a bias");
    check.shape({"bias_copy", bias_copy}, {weight.shape[0]}, {"weight", weight});
    check.same_type({"bias_copy", bias_copy}, {"weight", weight});
  }
  check.shape({"y", y}, {x.shape[0], weight.shape[0]}, {"x", x});
  check_result_type(check, {"y", y}, {"x", x});
  check.distinct({"y", y}, {{"x", x}, {"weight", weight}, {"bias", bias}, {"bias_copy", bias_copy}});
  if (activation > Activation::relu)
    check.refuse(fmt::format("activation is {}, none or relu is needed", name_of(activation)));
}

void LinearBackwardData::check() const {
  const OpCheck check(name);
  check.rank({"dy", dy}, 2);
  check.floating({"dy", dy});
  check.rank({"weight", weight}, 2);
  check.shape({"weight", weight}, {dy.shape[1], weight.shape[1]}, {"dy", dy});
  check.same_type({"weight", weight}, {"dy", dy});
  check.contiguous({{"weight", weight}});
  check.shape({"dx", dx}, {dy.shape[0], weight.shape[1]}, {"dy", dy});
  check_result_type(check, {"dx", dx}, {"dy", dy});
  check.distinct({"dx", dx}, {{"dy", dy}, {"weight", weight}});
  if (!gate) {
    if (dbias) check.refuse("dbias without a gate");
    return;
  }
  if (accumulate) check.refuse("a gated result cannot be added to dx");
  check.shape({"gate", gate}, {dy.shape[0], weight.shape[1]}, {"dx", dx});
  check.same_type({"gate", gate}, {"dx", dx});
  check.distinct({"dx", dx}, {{"gate", gate}});
  check.finite("gate_scale", gate_scale);
  if (!dbias) return;
  check.shape({"dbias", dbias}, {weight.shape[1]}, {"weight", weight});
  check.type({"dbias", dbias}, DType::f32);
  check.distinct({"dbias", dbias}, {{"dx", dx}, {"dy", dy}, {"weight", weight}, {"gate", gate}});
}

void LinearBackwardWeight::check() const {
  const OpCheck check(name);
  check.rank({"dy", dy}, 2);
  check.floating({"dy", dy});
  check.rank({"x", x}, 2);
  check.shape({"x", x}, {dy.shape[0], x.shape[1]}, {"dy", dy});
  check.same_type({"x", x}, {"dy", dy});
  check.shape({"dweight", dweight}, {dy.shape[1], x.shape[1]}, {"dy", dy});
  check.type({"dweight", dweight}, DType::f32);
  check.contiguous({{"dweight", dweight}});
  check.distinct({"dweight", dweight}, {{"dy", dy}, {"x", x}, {"dbias", dbias}});
  if (dbias) {
    check.shape({"dbias", dbias}, {dy.shape[1]}, {"dy", dy});
    check.type({"dbias", dbias}, DType::f32);
    check.distinct({"dbias", dbias}, {{"dy", dy}, {"x", x}});
  }
}

}  // namespace babelring
