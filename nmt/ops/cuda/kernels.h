#pragma once

#include "nmt/ops/adam.h"
#include "nmt/ops/attention.h"
#include "nmt/ops/cross_entropy.h"
#include "nmt/ops/cuda/cuda_context.h"
#include "nmt/ops/dropout.h"
#include "nmt/ops/elementwise.h"
#include "nmt/ops/embedding.h"
#include "nmt/ops/layer_norm.h"
#include "nmt/ops/linear.h"

/// Every op, one file a family. Ops have passed check(); they are launched on the workspace's stream, and results recur
/// bit by bit: no sum depends on the order in which threads run.
namespace babelring::cuda {

void run(const LinearForward& op, CudaContext& workspace);
/// See Backend::relu_mask_words().
std::int64_t relu_mask_words(const LinearForward& op, CudaContext& workspace);
void run(const LinearBackwardData& op, CudaContext& workspace);
void run(const LinearBackwardWeight& op, CudaContext& workspace);
void run(const LayerNormForward& op, CudaContext& workspace);
void run(const ResidualNormForward& op, CudaContext& workspace);
void run(const LayerNormBackward& op, CudaContext& workspace);
void run(const Dropout& op, CudaContext& workspace);
void run(const ResidualDropout& op, CudaContext& workspace);
void run(const EmbeddingForward& op, CudaContext& workspace);
void run(const EmbeddingBackward& op, CudaContext& workspace);
void run(const AttentionForward& op, CudaContext& workspace);
void run(const AttentionBackward& op, CudaContext& workspace);
/// The widest head that DecodeAttention takes: a block's shared memory holds a row of it.
constexpr std::int64_t widest_decoding_head = 8192;
void run(const DecodeAttention& op, CudaContext& workspace);
void run(const CrossEntropy& op, CudaContext& workspace);
void run(const LogSoftmaxTopK& op, CudaContext& workspace);
void run(const AdamUpdate& op, CudaContext& workspace);
void run(const SquaredNorm& op, CudaContext& workspace);
void run(const SumWithNorm& op, CudaContext& workspace);
void run(const Cast& op, CudaContext& workspace);
/// The same on any stream. Contiguous.
void cast(ConstTensor x, Tensor y, WorkStream stream);
void run(const Fill& op, CudaContext& workspace);
void run(const Add& op, CudaContext& workspace);

}  // namespace babelring::cuda
