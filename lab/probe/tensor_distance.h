#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "nmt/core/tensor.h"

namespace babelring {

/// A probe's summary of a tensor's elements, read in row-major order.
struct TensorSummary {
  /// Max number of elements whose bits are stored.
  static constexpr std::int64_t max_elements = 64;

  std::string sha256;                          // of the elements' bytes, without padding between rows
  double min = 0, max = 0, mean = 0, rms = 0;  // of the finite elements; 0 if there are none
  double absmax = 0;
  std::int64_t zeros = 0, non_finite = 0;
  std::vector<std::uint32_t> bits;  // of the elements at sampled_places(); bf16 in the low half

  bool operator==(const TensorSummary&) const = default;
};

/// The indices of the elements whose bits a probe stores, ascending: all of a small tensor, otherwise the first, the
/// last and pseudo-random ones between them. A pure function of the number of elements.
std::vector<std::int64_t> sampled_places(std::int64_t elements);

/// Summarizes a tensor in host memory.
TensorSummary summarize(const ConstTensor& tensor);

/// The numeric value of an element's bits.
double value_of(std::uint32_t bits, DType type);

/// The distance between two elements of one type.
struct ElementDistance {
  double absolute = 0;
  double relative = 0;    // to the larger magnitude
  std::uint64_t ulp = 0;  // units in the last place: steps between neighbouring values of the type, through zero
};

/// NaN equals NaN; the distance of NaN to a number is infinite, with the max ulp.
ElementDistance distance_of(std::uint32_t a, std::uint32_t b, DType type);

/// The same for elements of two types. ULP are then those of bf16, rounded up: f32 has 65,536 values for each of its
/// steps. An i32 and a float have no distance: one of them is infinite, with the max ulp, unless both are 0.
ElementDistance distance_of(std::uint32_t a, DType type_a, std::uint32_t b, DType type_b);

/// The distances between the elements of two tensors.
struct TensorDistance {
  /// A position among the compared elements, with the distance there.
  struct Place {
    std::int64_t at = -1;  // -1: no element differs
    ElementDistance distance;
  };

  std::int64_t compared = 0, different = 0;
  std::int64_t first = -1;        // position of the first different element among those compared; -1: none
  ElementDistance worst;          // the max of each distance, over all elements
  Place absolute, relative, ulp;  // where each has its max
};

TensorDistance distance_of(std::span<const std::uint32_t> a, DType type_a, std::span<const std::uint32_t> b,
                           DType type_b);
inline TensorDistance distance_of(std::span<const std::uint32_t> a, std::span<const std::uint32_t> b, DType type) {
  return distance_of(a, type, b, type);
}

/// How far elements may be apart. All given limits must hold.
struct Tolerance {
  std::optional<std::uint64_t> ulp;
  std::optional<double> relative, absolute;

  /// "0", or limits such as "4ulp", "1e-5rel" and "1e-6abs", separated by commas.
  static Result<Tolerance> parse(std::string_view text);
  /// True if equal tensors only are close.
  bool exact() const { return !ulp && !relative && !absolute; }
  bool allows(const TensorDistance& distance) const;
};

}  // namespace babelring
