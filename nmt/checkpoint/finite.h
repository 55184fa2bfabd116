#pragma once

#include <span>
#include <string>

#include "nmt/checkpoint/safetensors.h"

namespace babelring {

/// Finds the first non-finite value: "decoder.norm.gain[0] is nan"; empty if all are finite. Checks only f32 tensors,
/// which must be contiguous and in host memory.
std::string find_non_finite(std::span<const NamedTensor> tensors);

/// Checks the tensors of a file.
std::string find_non_finite(const SafetensorsReader& file);

/// Throws Failure if a weight is not finite: "FILE: weights are not finite: decoder.norm.gain[0] is nan".
void require_finite(const SafetensorsReader& weights);

}  // namespace babelring
