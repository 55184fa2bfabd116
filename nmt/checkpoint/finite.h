#pragma once

#include <span>

#include "base/result.h"
#include "nmt/checkpoint/tensor_files.h"

namespace babelring {

/// Checks that all values of the f32 tensors are finite; other types are not checked. The Error names the first value
/// that is not: "decoder.norm.gain[0] is nan". The tensors must be contiguous and in host memory.
Status check_finite(std::span<const NamedTensor> tensors);

/// Checks the weights of a checkpoint in the same way: "FILE: weights are not finite: decoder.norm.gain[0] is nan".
Status check_finite(const TensorFiles& weights);

/// Throw Failure if a weight is not finite: "weights are not finite: …", in a checkpoint after "FILE: ".
void require_finite(std::span<const NamedTensor> weights);
void require_finite(const TensorFiles& weights);

}  // namespace babelring
