#pragma once

#include "nmt/core/buffer.h"
#include "nmt/ops/cpu/cpu_context.h"
#include "nmt/ops/linear.h"

namespace babelring::cpu::BABELRING_KERNEL_SET {

/// Matmuls with a packed weight for instruction sets without bf16 products. The packed weight is f32: bf16 is widened,
/// which is exact. It is a run of panels of as many outputs as a few vector registers hold, and a panel is a run of
/// these outputs' weights for each input. Outputs up to the panel's end are 0.

/// The panels of a contiguous [out, in], f32 or bf16.
Buffer pack_widened(const ConstTensor& weight, int threads);

/// Runs the op by op.packed, which pack_widened() made. Each row's sums go along the inputs in their order, whatever
/// the other rows, the result's type or the number of threads.
void multiply_widened(const LinearForward& op, const CpuContext& context);

}  // namespace babelring::cpu::BABELRING_KERNEL_SET
