#pragma once

#include "nmt/ops/cuda/cuda_context.h"
#include "nmt/ops/linear.h"

namespace babelring::cuda {

/// Launches an op on the context's stream. Each op has a specialization in the source of its family; the linker
/// reports a missing one. Ops have passed check(). Results are reproducible bit by bit: no sum depends on the order in
/// which threads run.
template <class Op>
void run(const Op& op, CudaContext& context);

/// See Backend::epilogue_aux_words().
std::int64_t epilogue_aux_words(const LinearForward& op, CudaContext& context);
/// Max head width of DecodeAttention: a block's shared memory holds one row of a head.
constexpr std::int64_t widest_decoding_head = 8192;
/// Cast on any stream. Contiguous.
void cast(ConstTensor x, Tensor y, WorkStream stream);

}  // namespace babelring::cuda
