#pragma once

#include "nmt/ops/adam.h"
#include "nmt/ops/attention.h"
#include "nmt/ops/cross_entropy.h"
#include "nmt/ops/cuda/workspace.h"
#include "nmt/ops/dropout.h"
#include "nmt/ops/elementwise.h"
#include "nmt/ops/embedding.h"
#include "nmt/ops/layer_norm.h"
#include "nmt/ops/linear.h"

/// Every op, one file a family. Ops have passed check(); they are launched on the workspace's stream, and results recur
/// bit by bit: no sum depends on the order in which threads run.
namespace babelring::cuda {

void run(const LinearForward& op, Workspace& workspace);
/// See Backend::relu_mask_words().
std::int64_t relu_mask_words(const LinearForward& op, Workspace& workspace);
void run(const LinearBackwardData& op, Workspace& workspace);
void run(const LinearBackwardWeight& op, Workspace& workspace);
void run(const LayerNormForward& op, Workspace& workspace);
void run(const ResidualNormForward& op, Workspace& workspace);
void run(const LayerNormBackward& op, Workspace& workspace);
void run(const Dropout& op, Workspace& workspace);
void run(const ResidualDropout& op, Workspace& workspace);
void run(const EmbeddingForward& op, Workspace& workspace);
void run(const EmbeddingBackward& op, Workspace& workspace);
void run(const AttentionForward& op, Workspace& workspace);
void run(const AttentionBackward& op, Workspace& workspace);
/// The widest head that DecodeAttention takes: a block's shared memory holds a row of it.
constexpr std::int64_t widest_decoding_head = 8192;
void run(const DecodeAttention& op, Workspace& workspace);
void run(const CrossEntropy& op, Workspace& workspace);
void run(const LogSoftmaxTopK& op, Workspace& workspace);
void run(const AdamUpdate& op, Workspace& workspace);
void run(const SquaredNorm& op, Workspace& workspace);
void run(const SumWithNorm& op, Workspace& workspace);
void run(const Cast& op, Workspace& workspace);
/// The same on any stream. Contiguous.
void cast(ConstTensor x, Tensor y, WorkStream stream);
void run(const Fill& op, Workspace& workspace);
void run(const Add& op, Workspace& workspace);

}  // namespace babelring::cuda
