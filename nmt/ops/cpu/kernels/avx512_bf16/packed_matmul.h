#pragma once

#include "nmt/core/buffer.h"
#include "nmt/ops/cpu/cpu_context.h"
#include "nmt/ops/linear.h"

namespace babelring::cpu::BABELRING_KERNEL_SET {

/// Matmuls by AVX-512 with a weight that lies packed, for processors without matrix tiles and for f32. A packed weight
/// is a run of panels of 64 outputs; a panel is a run of steps along the inputs, and a step holds one double word of
/// each output: an f32, or two neighbouring bf16. Outputs up to the panel's end and an odd bf16's neighbour are 0.

/// The panels of a contiguous [out, in], f32 or bf16.
Buffer pack_panels(const ConstTensor& weight, int threads);

/// Runs the op by op.packed, which pack_panels() made. Each row's sums go along the inputs in their order, whatever the
/// other rows, the result's type or the number of threads.
void multiply_by_panels(const LinearForward& op, const CpuContext& context);

}  // namespace babelring::cpu::BABELRING_KERNEL_SET
