#pragma once

#include <cstdint>
#include <span>

#include "nmt/ops/attention.h"
#include "nmt/ops/cuda/cuda_context.h"

namespace babelring::cuda {

/// Attention of the listed sentences, ascending, by cuDNN: their rows of the results are written, no others. False, and
/// nothing is launched, where it is not for cuDNN: operands other than bf16, dropout, rows or tensors that are not
/// aligned to 16 bytes, a sentence of which only queries or only keys are there, or a shape without a plan
/// (CudnnPlans::find). Making a plan takes about a second, once for a shape.
bool run_by_cudnn(const AttentionForward& op, std::span<const std::int32_t> sentences, CudaContext& context);
bool run_by_cudnn(const AttentionBackward& op, std::span<const std::int32_t> sentences, CudaContext& context);

/// The device now current.
CudnnDevice current_cudnn_device();

}  // namespace babelring::cuda
