#pragma once

#include <span>

#include "base/result.h"
#include "nmt/checkpoint/safetensors.h"

namespace babelring {

/// Checks that all values of the f32 tensors are finite; other types are not checked. The Error names the first value
/// that is not: "decoder.norm.gain[0] is nan". The tensors must be contiguous and in host memory.
Status check_finite(std::span<const NamedTensor> tensors);

/// Checks the tensors of a file in the same way.
Status check_finite(const SafetensorsReader& file);

/// Throws Failure if a weight is not finite: "FILE: weights are not finite: decoder.norm.gain[0] is nan".
void require_finite(const SafetensorsReader& weights);

}  // namespace babelring
