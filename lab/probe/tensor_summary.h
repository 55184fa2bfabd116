#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

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

}  // namespace babelring
