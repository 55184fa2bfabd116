#include "nmt/ops/linear.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/failure.h"
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

void QuantizedLinear::check() const {
  const OpCheck check(name);
  check.quantized(weight);
  check.rank({"x", x}, 2);
  check.shape({"x", x}, {x.shape[0], weight.shape[1]},
              {"weight", ConstTensor(weight.elements.data, weight.shape, DType::int8)});
  check.type({"x", x}, DType::f32);
  check.rank({"y", y}, 2);
  check.shape({"y", y}, {x.shape[0], y.shape[1]}, {"x", x});
  check.type({"y", y}, DType::f32);
  if (first < 0 || first + y.shape[1] > weight.shape[0]) {
    check.refuse(fmt::format("y has outputs {} to {}, weight {} has {}", first, first + y.shape[1], weight.shape.text(),
                             weight.shape[0]));
  }
  if (bias) {
    check.shape({"bias", bias}, {y.shape[1]}, {"y", y});
    check.type({"bias", bias}, DType::f32);
  }
  check.distinct({"y", y}, {{"x", x}, {"bias", bias}});
  if (activation > Activation::relu)
    check.refuse(fmt::format("activation is {}, none or relu is needed", name_of(activation)));
}

namespace {

/// Rounds an output's row.
void quantize_row(const float* row, std::int64_t output, const QuantizedWeight& weight, QuantizedCopy& copy) {
  constexpr float largest_q = 127, smallest = 1e-30f;
  float largest = 0;
  for (std::int64_t i = 0; i < weight.shape[1]; ++i) largest = std::max(largest, std::abs(row[i]));
  const float factor = largest < smallest ? 0 : largest_q / largest;
  auto* elements = static_cast<std::int8_t*>(copy.elements.data()) + weight.place(output, 0);
  std::int32_t sum = 0;
  for (std::int64_t i = 0; i < weight.shape[1]; ++i) {
    const auto q = static_cast<std::int8_t>(std::nearbyint(row[i] * factor));
    elements[QuantizedWeight::distance(i)] = q;
    sum += q;
  }
  static_cast<float*>(copy.scales.data())[output] = largest < smallest ? 0 : largest / largest_q;
  static_cast<std::int32_t*>(copy.sums.data())[output] = sum;
}

}  // namespace

QuantizedCopy quantize(const ConstTensor& weight, std::string_view name) {
  const std::int64_t outputs = weight.shape[0], inputs = weight.shape[1];
  if (inputs > max_quantized_inputs) {
    fail("{}: has {} inputs, int8 takes at most {}", name, inputs, max_quantized_inputs);
  }
  const auto* rows = weight.as<float>();
  const auto* wrong = std::find_if_not(rows, rows + outputs * inputs, [](float x) { return std::isfinite(x); });
  if (wrong != rows + outputs * inputs) {
    fail("{}: [{}, {}] is {}, int8 needs finite weights", name, (wrong - rows) / inputs, (wrong - rows) % inputs,
         *wrong);
  }
  QuantizedCopy copy{.weight = {.shape = weight.shape, .elements = {}, .scales = {}, .sums = {}}};
  QuantizedWeight& made = copy.weight;
  const Shape per_output{made.panels() * QuantizedWeight::panel_outputs};
  copy.elements = allocate_host(static_cast<std::size_t>(made.elements_shape().elements()));
  copy.scales = allocate_host(static_cast<std::size_t>(per_output.elements()) * sizeof(float));
  copy.sums = allocate_host(static_cast<std::size_t>(per_output.elements()) * sizeof(std::int32_t));
  made.elements = copy.elements.view(made.elements_shape(), DType::int8);
  made.scales = copy.scales.view(per_output, DType::f32);
  made.sums = copy.sums.view(per_output, DType::i32);
#pragma omp parallel for schedule(static)
  for (std::int64_t output = 0; output < outputs; ++output) quantize_row(rows + output * inputs, output, made, copy);
  return copy;
}

}  // namespace babelring
