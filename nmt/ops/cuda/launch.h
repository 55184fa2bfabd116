#pragma once

#include <cuda_runtime_api.h>

#include <initializer_list>

#include "nmt/core/tensor.h"
#include "nmt/ops/cuda/products.h"
#include "nmt/ops/cuda/work_log.h"

/// Kernels that several ops share.
namespace babelring::cuda {

/// Any product, slowly; its epilogue is left out.
void launch_plain_product(const ProductShape& shape, const ProductOperands& operands, WorkStream stream);
/// C = the bias, in every row, to which the product is then added.
void launch_bias(const ProductShape& shape, const ProductOperands& operands, WorkStream stream);
/// Cuts C at zero.
void launch_relu(const ProductShape& shape, const ProductOperands& operands, WorkStream stream);

/// Sums over rows are computed in two steps of a fixed order, so that their bits repeat: first over each block of this
/// number of rows, then over the blocks.
constexpr std::int64_t sum_block_rows = 64;
constexpr std::int64_t sum_blocks(std::int64_t rows) {
  return (rows + sum_block_rows - 1) / sum_block_rows;
}
/// sum = or += partial[0] + partial[1] + …, for one sum or two, [n] f32 each: a block's parts of both lie one behind
/// the other.
void launch_add_blocks(const float* partial, std::int64_t blocks, std::initializer_list<Tensor> sums, bool accumulate,
                       WorkStream stream);

}  // namespace babelring::cuda
