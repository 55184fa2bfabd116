#include "nmt/ops/cpu/kernels.h"

#include "base/compiled_instruction_sets.h"

namespace babelring::cpu::BABELRING_KERNEL_SET {

// Defined in the other sources of this folder.
void run(const LinearForward& op, CpuContext& context);
void run(const LinearBackwardData& op, CpuContext& context);
void run(const LinearBackwardWeight& op, CpuContext& context);
void run(const LayerNormForward& op, CpuContext& context);
void run(const ResidualNormForward& op, CpuContext& context);
void run(const LayerNormBackward& op, CpuContext& context);
void run(const Dropout& op, CpuContext& context);
void run(const ResidualDropout& op, CpuContext& context);
void run(const EmbeddingForward& op, CpuContext& context);
void run(const EmbeddingBackward& op, CpuContext& context);
void run(const AttentionForward& op, CpuContext& context);
void run(const AttentionBackward& op, CpuContext& context);
void run(const DecodeAttention& op, CpuContext& context);
void run(const CrossEntropy& op, CpuContext& context);
void run(const LogSoftmaxTopK& op, CpuContext& context);
void run(const AdamUpdate& op, CpuContext& context);
void run(const SquaredNorm& op, CpuContext& context);
void run(const SumWithNorm& op, CpuContext& context);
void run(const Cast& op, CpuContext& context);
void run(const Fill& op, CpuContext& context);
void run(const Add& op, CpuContext& context);
Buffer pack(const ConstTensor& weight, const CpuContext& context);

template <class... Ops>
constexpr std::tuple<Kernel<Ops>...> kernels_for(OpList<Ops...>) {
  return {static_cast<Kernel<Ops>>(run)...};
}

extern constinit const Kernels kernels{compiled_instruction_sets, kernels_for(AllOps{}), pack};

}  // namespace babelring::cpu::BABELRING_KERNEL_SET
