#pragma once

#include "nmt/ops/adam.h"
#include "nmt/ops/attention.h"
#include "nmt/ops/cpu/cpu_context.h"
#include "nmt/ops/cross_entropy.h"
#include "nmt/ops/dropout.h"
#include "nmt/ops/elementwise.h"
#include "nmt/ops/embedding.h"
#include "nmt/ops/layer_norm.h"

/// Everything but the products, one file a family. Ops have passed check(); indices in tensors are checked here
/// (Failure). Results do not depend on the number of threads.
namespace babelring::cpu {

void run(const LayerNormForward& op, CpuContext& workspace);
void run(const ResidualNormForward& op, CpuContext& workspace);
void run(const LayerNormBackward& op, CpuContext& workspace);
void run(const Dropout& op, CpuContext& workspace);
void run(const ResidualDropout& op, CpuContext& workspace);
void run(const EmbeddingForward& op, CpuContext& workspace);
void run(const EmbeddingBackward& op, CpuContext& workspace);
void run(const AttentionForward& op, CpuContext& workspace);
void run(const AttentionBackward& op, CpuContext& workspace);
void run(const DecodeAttention& op, CpuContext& workspace);
void run(const CrossEntropy& op, CpuContext& workspace);
void run(const LogSoftmaxTopK& op, CpuContext& workspace);
void run(const AdamUpdate& op, CpuContext& workspace);
void run(const SquaredNorm& op, CpuContext& workspace);
void run(const SumWithNorm& op, CpuContext& workspace);
void run(const Cast& op, CpuContext& workspace);
void run(const Fill& op, CpuContext& workspace);
void run(const Add& op, CpuContext& workspace);

/// Throws Failure unless every index is in [0, bound) or `absent`: embedding_forward: ids[3] is 40000, 0 to 32767 is
/// needed.
void check_indices(std::string_view op, std::string_view field, const ConstTensor& indices, std::int64_t bound,
                   std::int32_t absent = 0);

}  // namespace babelring::cpu
