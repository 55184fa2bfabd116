#include "nmt/checkpoint/finite.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/failure.h"
#include "base/log.h"

namespace babelring {
namespace {

constexpr std::int64_t block_elements = 4096;

/// Branch-free per element, so that compilers vectorise it.
bool all_finite(const float* values, std::int64_t count) {
  constexpr std::uint32_t magnitude = 0x7fffffff, infinity = 0x7f800000;
  std::uint32_t largest = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    largest = std::max(largest, std::bit_cast<std::uint32_t>(values[i]) & magnitude);
  }
  return largest < infinity;
}

/// The indices of an element as text: "[3, 17]".
std::string index_text(std::int64_t element, const Shape& shape) {
  std::string indices;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    indices = fmt::format("{}{}{}", element % shape[axis], indices.empty() ? "" : ", ", indices);
    element /= shape[axis];
  }
  return "[" + indices + "]";
}

}  // namespace

Status check_finite(std::span<const NamedTensor> tensors) {
  for (const auto& [name, tensor] : tensors) {
    if (tensor.dtype != DType::f32) continue;
    const auto* values = tensor.as<float>();
    const std::int64_t count = tensor.shape.elements();
    for (std::int64_t begin = 0; begin < count; begin += block_elements) {
      const std::int64_t end = std::min(count, begin + block_elements);
      if (all_finite(values + begin, end - begin)) continue;
      const auto* found = std::find_if_not(values + begin, values + end, [](float x) { return std::isfinite(x); });
      return Error{fmt::format("{}{} is {}", printable(name), index_text(found - values, tensor.shape), *found)};
    }
  }
  return {};
}

Status check_finite(const TensorFiles& weights) {
  for (const SafetensorsReader& file : weights.files()) {
    std::vector<NamedTensor> tensors;
    for (const SafetensorsEntry& entry : file.entries()) {
      if (entry.dtype == "F32") tensors.push_back({entry.name, file.tensor(entry.name)});
    }
    if (const Status finite = check_finite(tensors); !finite) {
      return Error{fmt::format("{}: weights are not finite: {}", file.file().string(), finite.error())};
    }
  }
  return {};
}

void require_finite(std::span<const NamedTensor> weights) {
  if (const Status finite = check_finite(weights); !finite) fail("weights are not finite: {}", finite.error());
}

void require_finite(const TensorFiles& weights) {
  check_finite(weights).value();
}

}  // namespace babelring
