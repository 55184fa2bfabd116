#include "nmt/core/parameters.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>

#include "base/failure.h"
#include "nmt/core/random.h"

namespace babelring {

namespace {

std::uint64_t seed_of(const std::string& name, std::uint64_t seed) {
  std::uint64_t hash = seed;
  for (const char c : name) hash = mix64(hash + static_cast<unsigned char>(c));
  return hash;
}

}  // namespace

Initializer Initializer::glorot(std::int64_t fan_in, std::int64_t fan_out, float gain) {
  return {Kind::uniform, gain * std::sqrt(6.0f / static_cast<float>(fan_in + fan_out))};
}

const Parameter& ParameterStore::declare(std::string name, Shape shape, Initializer initializer) {
  if (masters_.data() != nullptr) fail("parameter {} was declared after allocation", name);
  Parameter parameter{.name = std::move(name), .shape = shape, .initializer = initializer};
  parameter.index = parameters_.size();
  place(parameter);
  parameters_.push_back(std::move(parameter));
  return parameters_.back();
}

/// Gives the parameter its place at the end of the flat arrays.
void ParameterStore::place(Parameter& parameter) {
  parameter.offset = flat_size_;
  flat_size_ += (parameter.shape.elements() + alignment - 1) / alignment * alignment;
}

void ParameterStore::allocate(const ParameterMemory& memory, DType compute) {
  if (compute == DType::int8) {
    if (memory.gradients) fail("parameters of int8 have no gradients");
    flat_size_ = 0;
    for (Parameter& parameter : parameters_) {
      parameter.offset = flat_size_;
      if (parameter.read_as_f32()) place(parameter);
    }
  }
  const auto elements = static_cast<std::size_t>(flat_size_);
  const bool copied = compute == DType::bf16 && memory.copied_masters;
  masters_ = (copied ? memory.copied_masters : memory.weights)(elements * size_of(DType::f32));
  if (compute == DType::bf16) compute_ = memory.weights(elements * size_of(DType::bf16));
  if (memory.gradients) gradients_ = memory.gradients(elements * size_of(DType::f32));
  for (Parameter& parameter : parameters_) {
    if (compute == DType::int8 && !parameter.read_as_f32()) continue;
    const auto offset = static_cast<std::size_t>(parameter.offset);
    parameter.master = masters_.view(parameter.shape, DType::f32, offset * size_of(DType::f32));
    parameter.compute = compute == DType::bf16
                            ? compute_.view(parameter.shape, DType::bf16, offset * size_of(DType::bf16))
                            : parameter.master;
    if (memory.gradients) {
      parameter.gradient = gradients_.view(parameter.shape, DType::f32, offset * size_of(DType::f32));
    }
  }
}

void ParameterStore::quantize(const Parameter& parameter, const QuantizedWeight& weight,
                              std::shared_ptr<const void> owner) {
  parameters_[parameter.index].quantized = weight;
  owners_.push_back(std::move(owner));
}

std::int64_t ParameterStore::count() const {
  std::int64_t total = 0;
  for (const Parameter& parameter : parameters_) total += parameter.shape.elements();
  return total;
}

std::int64_t ParameterStore::padded_size(const Parameter& parameter) const {
  const bool last = parameter.index + 1 == parameters_.size();
  return (last ? flat_size_ : parameters_[parameter.index + 1].offset) - parameter.offset;
}

std::vector<ElementRange> ParameterStore::ranges_read_as_f32(bool read) const {
  std::vector<ElementRange> ranges;
  for (const Parameter& parameter : parameters_) {
    if (parameter.read_as_f32() != read) continue;
    ranges.push_back({parameter.offset, parameter.offset + padded_size(parameter)});
  }
  return ranges;
}

void ParameterStore::add_gradients(Buffer array) {
  more_gradients_.push_back(std::move(array));
}

void ParameterStore::write_gradient_to(const Parameter& parameter, int array) {
  parameters_[parameter.index].gradient = gradient(parameter, array);
}

Tensor ParameterStore::gradient(const Parameter& parameter, int array) const {
  const Buffer& buffer = array == 0 ? gradients_ : more_gradients_[static_cast<std::size_t>(array - 1)];
  return buffer.view(parameter.shape, DType::f32, static_cast<std::size_t>(parameter.offset) * size_of(DType::f32));
}

Tensor ParameterStore::compute_copies() const {
  return compute_.data() == nullptr ? Tensor() : compute_.view(Shape{flat_size_}, DType::bf16);
}

std::optional<ParameterElement> ParameterStore::at(const void* address) const {
  const auto inside = [address](const Buffer& buffer) {
    const std::less<const void*> before;
    return buffer.data() != nullptr && !before(address, buffer.data()) &&
           before(address, static_cast<const char*>(buffer.data()) + buffer.bytes());
  };
  const auto element_of = [&](const Buffer& array, DType type, ParameterArray name) -> std::optional<ParameterElement> {
    const auto byte = static_cast<const char*>(address) - static_cast<const char*>(array.data());
    const auto flat = static_cast<std::int64_t>(static_cast<std::size_t>(byte) / size_of(type));
    const auto next =
        std::upper_bound(parameters_.begin(), parameters_.end(), flat,
                         [](std::int64_t element, const Parameter& parameter) { return element < parameter.offset; });
    if (next == parameters_.begin()) return std::nullopt;
    const Parameter& parameter = *std::prev(next);
    if (flat - parameter.offset >= parameter.shape.elements()) return std::nullopt;
    return ParameterElement{.parameter = &parameter, .array = name, .element = flat - parameter.offset};
  };
  if (inside(masters_)) return element_of(masters_, DType::f32, ParameterArray::masters);
  if (inside(gradients_)) return element_of(gradients_, DType::f32, ParameterArray::gradients);
  for (const Buffer& more : more_gradients_) {
    if (inside(more)) return element_of(more, DType::f32, ParameterArray::gradients);
  }
  if (inside(compute_)) return element_of(compute_, DType::bf16, ParameterArray::compute_copies);
  return std::nullopt;
}

std::vector<float> initial_values(const Parameter& parameter, std::uint64_t seed) {
  std::vector<float> values(static_cast<std::size_t>(parameter.shape.elements()));
  Random random(seed_of(parameter.name, seed));
  const Initializer& initializer = parameter.initializer;
  for (float& value : values) {
    switch (initializer.kind) {
      case Initializer::Kind::zeros:
        value = 0;
        break;
      case Initializer::Kind::ones:
        value = 1;
        break;
      case Initializer::Kind::uniform:
        value = static_cast<float>((2 * random.uniform() - 1) * static_cast<double>(initializer.scale));
        break;
      case Initializer::Kind::normal:
        value = static_cast<float>(random.normal() * static_cast<double>(initializer.scale));
        break;
    }
  }
  return values;
}

}  // namespace babelring
