#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "nmt/layers/context.h"
#include "nmt/ops/elementwise.h"

namespace babelring {

inline std::vector<float> host_copy(Backend& backend, ConstTensor tensor) {
  std::vector<float> values(static_cast<std::size_t>(tensor.shape.elements()));
  if (!values.empty()) backend.download(tensor, values.data());
  return values;
}

inline double dot(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

/// Compares a layer's backward with central differences of its forward pass, in f32. For every parameter and input,
/// checks the derivative of L = <w, y>, with a random w, along a random direction.
///
///     GradientCheck check(backend);
///     Linear layer(check.store(), "linear", 3, 5, true, Initializer::normal(1));
///     check.allocate();
///     auto& x = check.input(Shape{7, 3});
///     check.run([&](Context& c) { return layer.forward(c, c.saved, x.value); },
///               [&](Context& c, Tensor dy) { layer.backward(c, dy, x.value, x.gradient); });
class GradientCheck {
 public:
  struct Variable {
    std::string name;
    Tensor value, gradient;
  };

  explicit GradientCheck(Backend& backend, bool training = false)
      : backend_(backend), kept_(allocator()), saved_(allocator()), scratch_(allocator()), training_(training) {}

  ParameterStore& store() { return store_; }

  /// Call after creating the layers. Sets all parameters to random values, regardless of their initializers.
  void allocate() {
    store_.allocate({allocator(), allocator()}, DType::f32);
    for (const Parameter& parameter : store_.all()) {
      variables_.push_back({parameter.name, parameter.master, parameter.gradient});
      const bool gain = parameter.name.ends_with("gain");
      upload_random(parameter.master, gain ? 0.3 : 0.7, gain ? 1 : 0);
    }
  }

  /// A random input and a tensor for its gradient, which backward must write. The reference stays valid.
  const Variable& input(Shape shape) {
    variables_.push_back({"input" + shape.text(), kept_.make(shape, DType::f32), kept_.make(shape, DType::f32)});
    upload_random(variables_.back().value, 1, 0);
    return variables_.back();
  }
  Tensor ids(const std::vector<std::int32_t>& values) {
    Tensor tensor = kept_.make(Shape{std::ssize(values)}, DType::i32);
    backend_.upload(values.data(), tensor);
    return tensor;
  }
  ConstTensor on_host(std::vector<std::int32_t> values) {
    const std::vector<std::int32_t>& kept = lists_.emplace_back(std::move(values));
    return ConstTensor(kept.data(), Shape{std::ssize(kept)}, DType::i32);
  }
  /// Sentences of the given lengths; ids are all 0.
  Sequences sequences(const std::vector<std::int32_t>& lengths, std::int64_t first_row = 0) {
    std::vector<std::int32_t> positions, offsets = {0};
    for (const std::int32_t length : lengths) {
      for (std::int32_t i = 0; i < length; ++i) positions.push_back(i);
      offsets.push_back(offsets.back() + length);
    }
    const std::vector<std::int32_t> zeros(positions.size(), 0);
    return {
        .ids = ids(zeros), .positions = ids(positions), .offsets = on_host(std::move(offsets)), .first_row = first_row};
  }

  Context context() {
    saved_.reset();
    scratch_.reset();
    return {.backend = backend_, .saved = saved_, .scratch = scratch_, .training = training_, .dropout_seed = 11};
  }

  using Forward = std::function<Tensor(Context&)>;
  using Backward = std::function<void(Context&, Tensor dy)>;

  void run(const Forward& forward, const Backward& backward) {
    Context pass = context();
    const Tensor y = forward(pass);
    Tensor dy = kept_.make(y.shape, DType::f32);
    const std::vector<float> w = upload_random(dy, 1, 0);
    backend_.run(Fill{.y = store_.gradients(), .value = 0});
    backward(pass, dy);
    for (const Variable& variable : variables_) check(variable, forward, w);
  }

 private:
  static constexpr double step = 4e-3;
  static constexpr double tolerance = 5e-3;  // relative to the gradient's norm; covers f32 rounding and ReLU kinks

  std::function<Buffer(std::size_t)> allocator() {
    return [this](std::size_t bytes) { return backend_.allocate(bytes); };
  }

  std::vector<float> upload_random(Tensor tensor, double deviation, double mean) {
    std::vector<float> values(static_cast<std::size_t>(tensor.shape.elements()));
    for (float& value : values) value = static_cast<float>(mean + deviation * random_.normal());
    backend_.upload(values.data(), tensor);
    return values;
  }

  void check(const Variable& variable, const Forward& forward, const std::vector<float>& w) {
    const std::vector<float> value = host_copy(backend_, variable.value);
    const std::vector<float> gradient = host_copy(backend_, variable.gradient);
    std::vector<float> direction(value.size());
    for (float& element : direction) element = static_cast<float>(random_.normal());
    const double length = std::sqrt(dot(direction, direction));
    for (float& element : direction) element = static_cast<float>(static_cast<double>(element) / length);
    const auto loss_at = [&](double distance) {
      std::vector<float> moved = value;
      for (std::size_t i = 0; i < moved.size(); ++i) moved[i] += static_cast<float>(distance) * direction[i];
      backend_.upload(moved.data(), variable.value);
      Context pass = context();
      return dot(host_copy(backend_, forward(pass)), w);
    };
    const double difference = (loss_at(step) - loss_at(-step)) / (2 * step);
    backend_.upload(value.data(), variable.value);
    const double norm = std::sqrt(dot(gradient, gradient));
    EXPECT_GT(norm, 0) << variable.name << " has no gradient";
    EXPECT_NEAR(dot(gradient, direction), difference, tolerance * std::max(norm, 0.1)) << variable.name;
  }

  Backend& backend_;
  Arena kept_, saved_, scratch_;
  bool training_;
  ParameterStore store_;
  std::deque<Variable> variables_;
  std::deque<std::vector<std::int32_t>> lists_;  // host-side inputs of ops
  Random random_{7};
};

}  // namespace babelring
