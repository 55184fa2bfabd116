#pragma once

#include "nmt/ops/cuda/cuda_context.h"
#include "nmt/ops/op_list.h"

namespace babelring::cuda {

// void run(const Op& op, CudaContext& context), for each op: launches the op's kernels on the context's stream. The op
// has passed check(). Results are reproducible bit by bit: no sum depends on the order in which threads run. The linker
// reports an op without a definition.
#define BABELRING_DECLARE_KERNEL(Op) void run(const Op& op, CudaContext& context);
BABELRING_FOR_EACH_OP(BABELRING_DECLARE_KERNEL)
#undef BABELRING_DECLARE_KERNEL

/// Max head width of DecodeAttention: a block's shared memory holds one row of a head.
constexpr std::int64_t widest_decoding_head = 8192;
/// Cast on any stream. Contiguous.
void cast(ConstTensor x, Tensor y, WorkStream stream);

}  // namespace babelring::cuda
