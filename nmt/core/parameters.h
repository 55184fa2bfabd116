#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nmt/core/buffer.h"
#include "nmt/core/shards.h"

namespace babelring {

/// The distribution of a parameter's initial values.
struct Initializer {
  enum class Kind { zeros, ones, uniform, normal } kind = Kind::zeros;
  float scale = 0;  // uniform: values lie in [-scale, scale); normal: standard deviation

  static Initializer zeros() { return {Kind::zeros, 0}; }
  static Initializer ones() { return {Kind::ones, 0}; }
  static Initializer normal(float deviation) { return {Kind::normal, deviation}; }
  /// gain * sqrt(6 / (fan_in + fan_out)).  Source: Glorot and Bengio 2010, eq. 16.
  static Initializer glorot(std::int64_t fan_in, std::int64_t fan_out, float gain = 1);
};

/// One learned tensor. Its views point into the store's flat arrays.
struct Parameter {
  std::string name;  // encoder.0.attention.qkv.weight
  Shape shape;
  Initializer initializer;
  std::size_t index = 0;      // position in declaration order, which is forward order
  std::int64_t offset = 0;    // first element in the flat arrays
  Tensor master;              // f32
  Tensor gradient;            // f32, accumulated; null in an inference model; see write_gradient_to()
  ConstTensor compute;        // input of matmuls: a bf16 copy of the master, or the master itself in f32 mode
  QuantizedWeight quantized;  // in int8 mode, instead of master and compute, unless read_as_f32()

  /// True if passes read the master itself also in bf16 and int8 mode: biases and the gains of norms.
  bool read_as_f32() const { return shape.rank() == 1; }
};

/// The flat arrays of a ParameterStore.
enum class ParameterArray { masters, gradients, compute_copies };

/// An element of a parameter in one of the flat arrays.
struct ParameterElement {
  const Parameter* parameter = nullptr;
  ParameterArray array = ParameterArray::masters;
  std::int64_t element = 0;  // index within the parameter, row-major
};

/// Allocators for the arrays of a ParameterStore. Each returns zeroed memory.
struct ParameterMemory {
  using Allocate = std::function<Buffer(std::size_t bytes)>;
  Allocate weights;    // masters and compute copies
  Allocate gradients;  // empty function: the model is for inference and has no gradients
  /// Masters of which passes read bf16 copies, unless Parameter::read_as_f32(); empty function: like other weights.
  Allocate copied_masters = {};
};

/// All parameters of a model. Masters, gradients and compute copies are flat arrays with the same layout, so the
/// optimizer, the all-reduce and checkpoints each process one contiguous range. Every parameter starts at a multiple of
/// `alignment`; the padding between parameters stays zero.
class ParameterStore {
 public:
  static constexpr std::int64_t alignment = 64;  // elements

  /// Registers a parameter. The reference is valid for the store's lifetime. Throws Failure after allocate().
  const Parameter& declare(std::string name, Shape shape, Initializer initializer);

  /// Allocates the zeroed arrays. `compute` is f32, bf16 or, for inference, int8: then they hold only the parameters
  /// that are read_as_f32(), and quantize() gives the others their weights.
  void allocate(const ParameterMemory& memory, DType compute);
  /// Sets the weight of a parameter in int8 mode, whose memory `owner` keeps.
  void quantize(const Parameter& parameter, const QuantizedWeight& weight, std::shared_ptr<const void> owner);

  const std::deque<Parameter>& all() const { return parameters_; }
  /// Number of learned scalars, without padding.
  std::int64_t count() const;
  /// Number of elements in a flat array, with padding.
  std::int64_t flat_size() const { return flat_size_; }
  /// Number of elements from a parameter's offset to the next parameter's, with padding.
  std::int64_t padded_size(const Parameter& parameter) const;
  /// The parameters, with padding, whose read_as_f32() is `read`, as ascending ranges of the flat arrays.
  std::vector<ElementRange> ranges_read_as_f32(bool read) const;

  Tensor masters() const { return masters_.view(Shape{flat_size_}, DType::f32); }
  /// Throws Failure in a model without gradients.
  Tensor gradients() const { return gradients_.view(Shape{flat_size_}, DType::f32); }

  /// Adds a zeroed array of the size of gradients(), number 1, 2, …, to which gradients can go instead of number 0,
  /// which is gradients().
  void add_gradients(Buffer array);
  /// From now on parameter.gradient is the parameter's part of gradient array number `array`.
  void write_gradient_to(const Parameter& parameter, int array);
  /// A parameter's part of gradient array number `array`.
  Tensor gradient(const Parameter& parameter, int array) const;

  /// The flat bf16 copies of the masters; a null tensor in f32 mode.
  Tensor compute_copies() const;

  /// The element that contains the byte at `address`; nullopt outside of the flat arrays and in their padding.
  std::optional<ParameterElement> at(const void* address) const;

 private:
  void place(Parameter& parameter);

  std::deque<Parameter> parameters_;
  std::int64_t flat_size_ = 0;
  Buffer masters_, gradients_, compute_;
  std::vector<Buffer> more_gradients_;
  std::vector<std::shared_ptr<const void>> owners_;  // of quantized weights
};

/// Initial values of a parameter in row-major order. A pure function of (seed, name, shape, initializer).
std::vector<float> initial_values(const Parameter& parameter, std::uint64_t seed);

}  // namespace babelring
