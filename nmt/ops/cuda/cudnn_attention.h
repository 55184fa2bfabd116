#pragma once

#include <cstdint>
#include <span>

#include "nmt/ops/attention.h"
#include "nmt/ops/cuda/cuda_context.h"

namespace babelring::cuda {

/// Computes attention of the listed sentences, ascending, by cuDNN; rows of other sentences do not change. Returns
/// false and launches nothing if cuDNN does not support the op: operands other than bf16, dropout, rows or tensors that
/// are not aligned to 16 bytes, a sentence with queries but no keys or the reverse, or a shape without a plan
/// (CudnnPlans::workspace_bytes). The first call with a shape takes about a second.
bool run_by_cudnn(const AttentionForward& op, std::span<const std::int32_t> sentences, CudaContext& context);
bool run_by_cudnn(const AttentionBackward& op, std::span<const std::int32_t> sentences, CudaContext& context);

/// The current device.
CudnnDevice current_cudnn_device();

}  // namespace babelring::cuda
