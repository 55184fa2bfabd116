#pragma once

#include <cuda_runtime_api.h>

#include <initializer_list>
#include <string_view>

#include "nmt/core/tensor.h"
#include "nmt/ops/cuda/cuda_context.h"
#include "nmt/ops/cuda/matmul.h"
#include "nmt/ops/cuda/work_log.h"
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

/// Throws Failure naming the op: only processors compute in int8.
[[noreturn]] void refuse_quantized(std::string_view op);

// Kernels of several ops.

/// Computes a matmul of any shape with a plain, slow kernel, without its epilogue.
void launch_plain_matmul(const MatmulShape& shape, const MatmulOperands& operands, WorkStream stream);
/// Writes the bias to every row of C. A matmul that accumulates follows.
void launch_bias(const MatmulShape& shape, const MatmulOperands& operands, WorkStream stream);
/// C = max(C, 0).
void launch_relu(const MatmulShape& shape, const MatmulOperands& operands, WorkStream stream);

/// Sums over rows are computed in two steps, first over each block of this number of rows, then over the blocks, both
/// in a fixed order, so that results repeat bit for bit.
constexpr std::int64_t sum_block_rows = 64;
constexpr std::int64_t sum_blocks(std::int64_t rows) {
  return (rows + sum_block_rows - 1) / sum_block_rows;
}
/// Adds up partial sums of blocks: sum = partial[0] + partial[1] + …, or sum += it. For up to three sums, [n] f32 each,
/// of which absent ones do not count; `partial` is [blocks, number of sums, n].
void launch_add_blocks(const float* partial, std::int64_t blocks, std::initializer_list<Tensor> sums, bool accumulate,
                       WorkStream stream);

}  // namespace babelring::cuda
