#include "nmt/ops/cpu/kernels.h"

#include "base/compiled_instruction_sets.h"

namespace babelring::cpu::BABELRING_KERNEL_SET {

// Defined in the other sources of this folder.
#define BABELRING_DECLARE_KERNEL(Op) void run(const Op& op, CpuContext& context);
BABELRING_FOR_EACH_OP(BABELRING_DECLARE_KERNEL)
#undef BABELRING_DECLARE_KERNEL
Buffer pack(const ConstTensor& weight, const CpuContext& context);

template <class... Ops>
constexpr std::tuple<Kernel<Ops>...> kernels_for(OpList<Ops...>) {
  return {static_cast<Kernel<Ops>>(run)...};
}

extern constinit const Kernels kernels{compiled_instruction_sets, kernels_for(AllOps{}), pack};

}  // namespace babelring::cpu::BABELRING_KERNEL_SET
