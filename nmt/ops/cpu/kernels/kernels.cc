#include "nmt/ops/cpu/kernels.h"

#include "base/compiled_instruction_sets.h"

namespace babelring::cpu::BABELRING_KERNEL_SET {

// Defined in the other sources of this folder.
void run(const LinearForward& op, CpuContext& workspace);
void run(const LinearBackwardData& op, CpuContext& workspace);
void run(const LinearBackwardWeight& op, CpuContext& workspace);
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
Buffer pack(const ConstTensor& weight, const CpuContext& workspace);

template <class... Ops>
constexpr std::tuple<Kernel<Ops>...> kernels_for(OpList<Ops...>) {
  return {static_cast<Kernel<Ops>>(run)...};
}

extern constinit const Kernels kernels{compiled_instruction_sets, kernels_for(AllOps{}), pack};

}  // namespace babelring::cpu::BABELRING_KERNEL_SET
