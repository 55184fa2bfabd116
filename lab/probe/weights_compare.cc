#include "lab/probe/weights_compare.h"

#include <algorithm>
#include <cstring>
#include <span>

namespace babelring {

namespace {

std::span<const std::uint32_t> bits_of(const ConstTensor& tensor) {
  return {tensor.as<std::uint32_t>(), static_cast<std::size_t>(tensor.shape.elements())};
}

/// Compares a parameter that both checkpoints have.
ParameterDifference difference_of(const std::string& name, const ConstTensor& a, const ConstTensor& b,
                                  const Tolerance& tolerance) {
  ParameterDifference found{.name = name, .shape_a = a.shape, .shape_b = b.shape};
  if (a.shape != b.shape) return found;
  found.sameness = Sameness::same;
  if (std::memcmp(a.data, b.data, a.bytes()) == 0) return found;
  found.distance = distance_of(bits_of(a), bits_of(b), DType::f32);
  found.worst_a = a.as<float>()[found.distance.ulp.at];
  found.worst_b = b.as<float>()[found.distance.ulp.at];
  const bool close = !tolerance.exact() && tolerance.allows(found.distance);
  found.sameness = close ? Sameness::close : Sameness::differs;
  return found;
}

}  // namespace

WeightsComparison compare_weights(const Checkpoint& a, const Checkpoint& b, const Tolerance& tolerance) {
  const TensorFiles first = a.weights(), second = b.weights();
  WeightsComparison comparison;
  const auto add = [&](ParameterDifference difference) {
    ++comparison.parameters;
    if (difference.sameness == Sameness::same) return;
    comparison.sameness = std::max(comparison.sameness, std::min(difference.sameness, Sameness::differs));
    comparison.differences.push_back(std::move(difference));
  };
  for (const std::string& name : first.names()) {
    const ConstTensor tensor = first.tensor(name);
    if (second.contains(name)) {
      const ConstTensor same_type = first.tensor(name, tensor.shape);
      const ConstTensor other = second.tensor(name);
      add(difference_of(name, same_type, second.tensor(name, other.shape), tolerance));
    } else {
      add({.name = name, .sameness = Sameness::missing, .shape_a = tensor.shape, .in_b = false});
    }
  }
  for (const std::string& name : second.names()) {
    if (first.contains(name)) continue;
    const Shape shape = second.tensor(name).shape;
    add({.name = name, .sameness = Sameness::missing, .shape_b = shape, .in_a = false});
  }
  return comparison;
}

json::object to_json(const WeightsComparison& comparison) {
  json::array list;
  for (const ParameterDifference& difference : comparison.differences) {
    json::object object = {{"name", difference.name}, {"result", name_of(difference.sameness)}};
    if (!difference.in_a || !difference.in_b) object["missing_in"] = difference.in_a ? "b" : "a";
    if (difference.in_a) object["shape_a"] = difference.shape_a.text();
    if (difference.in_b) object["shape_b"] = difference.shape_b.text();
    const TensorDistance& distance = difference.distance;
    if (distance.different > 0) {
      object["elements"] = distance.compared;
      object["different"] = distance.different;
      object["absolute"] = distance.worst.absolute;
      object["relative"] = distance.worst.relative;
      object["ulp"] = distance.worst.ulp;
      object["element"] = distance.ulp.at;
      object["a"] = difference.worst_a;
      object["b"] = difference.worst_b;
    }
    list.push_back(std::move(object));
  }
  const bool differ = comparison.sameness == Sameness::differs;
  return {{"weights", differ ? "differ" : name_of(comparison.sameness)},
          {"parameters", comparison.parameters},
          {"differences", std::move(list)}};
}

}  // namespace babelring
