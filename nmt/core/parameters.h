#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "nmt/core/buffer.h"

namespace babelring {

/// How a parameter starts.
struct Initializer {
  enum class Kind { zeros, ones, uniform, normal } kind = Kind::zeros;
  float scale = 0;  // bound of the uniform, standard deviation of the normal

  static Initializer zeros() { return {Kind::zeros, 0}; }
  static Initializer ones() { return {Kind::ones, 0}; }
  static Initializer normal(float deviation) { return {Kind::normal, deviation}; }
  /// gain * sqrt(6 / (fan_in + fan_out)).  Source: Glorot and Bengio 2010, eq. 16.
  static Initializer glorot(std::int64_t fan_in, std::int64_t fan_out, float gain = 1);
};

/// One learned tensor: views into the store's flat arrays.
struct Parameter {
  std::string name;  // encoder.0.attention.qkv.weight
  Shape shape;
  Initializer initializer;
  std::size_t index = 0;    // in order of declaration, which is the order of the forward pass
  std::int64_t offset = 0;  // first element in the flat arrays
  Tensor master;            // f32
  Tensor gradient;          // f32, accumulated; absent in a model that is not trained
  ConstTensor compute;      // what products read: bf16 copy of the master, or the master itself in f32 mode
};

/// Where the arrays of a ParameterStore come from. Each gives zeroed memory of so many bytes.
struct ParameterMemory {
  using Allocate = std::function<Buffer(std::size_t bytes)>;
  Allocate weights;    // masters and compute copies
  Allocate gradients;  // empty for a model that is not trained: it has none then
};

/// All parameters of a model in flat arrays of one order, so that the optimizer, the all-reduce and checkpoints each
/// walk one range. Every parameter starts on a multiple of `alignment`; the gaps stay zero.
class ParameterStore {
 public:
  static constexpr std::int64_t alignment = 64;  // elements

  /// Registers a parameter; the reference stays valid for the store's life. Only before allocate().
  const Parameter& declare(std::string name, Shape shape, Initializer initializer);

  /// Makes the arrays, zeroed. `compute` is f32 or bf16.
  void allocate(const ParameterMemory& memory, DType compute);

  const std::deque<Parameter>& all() const { return parameters_; }
  /// Learned scalars, without the gaps.
  std::int64_t count() const;
  /// Elements of the flat arrays, with the gaps.
  std::int64_t flat_size() const { return flat_size_; }
  /// Elements from a parameter's offset to the next one's.
  std::int64_t padded_size(const Parameter& parameter) const;

  Tensor masters() const { return masters_.view(Shape{flat_size_}, DType::f32); }
  /// Throws Failure if the model was made without.
  Tensor gradients() const { return gradients_.view(Shape{flat_size_}, DType::f32); }
  /// bf16 copies of the masters, flat; absent in f32 mode.
  Tensor compute_copies() const;

 private:
  std::deque<Parameter> parameters_;
  std::int64_t flat_size_ = 0;
  Buffer masters_, gradients_, compute_;
};

/// Initial value of a parameter, [elements] on the host: a pure function of (seed, name, shape, initializer).
std::vector<float> initial_values(const Parameter& parameter, std::uint64_t seed);

}  // namespace babelring
