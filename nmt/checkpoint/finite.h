#pragma once

#include <span>
#include <string>

#include "nmt/checkpoint/safetensors.h"

namespace babelring {

/// The first value that is not finite, as "decoder.norm.gain[0] is nan"; empty if all are finite. Looks at f32 tensors
/// only, which are contiguous and in host memory.
std::string find_not_finite(std::span<const NamedTensor> tensors);

/// The same of the tensors in a file.
std::string find_not_finite(const SafetensorsReader& file);

/// Throws Failure unless all weights are finite: "FILE: weights are not finite: decoder.norm.gain[0] is nan".
void require_finite(const SafetensorsReader& weights);

}  // namespace babelring
