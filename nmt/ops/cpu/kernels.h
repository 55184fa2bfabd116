#pragma once

#include <tuple>

#include "base/instruction_sets.h"
#include "nmt/core/buffer.h"
#include "nmt/ops/cpu/cpu_context.h"
#include "nmt/ops/op_list.h"

namespace babelring::cpu {

/// Runs an op that has passed check(). Throws Failure if an index in a tensor is out of range. Results do not depend on
/// the number of threads, except for matmuls by oneDNN without CpuContext::fix_blocking().
template <class Op>
using Kernel = void (*)(const Op&, CpuContext&);

template <class... Ops>
std::tuple<Kernel<Ops>...> table_of(OpList<Ops...>);  // for its type

/// The kernels of one instruction set.
struct Kernels {
  InstructionSets compiled_for;
  decltype(table_of(AllOps{})) ops;
  /// Copies the weight [out, in] in the order in which the kernel of LinearForward reads it (Backend::pack()).
  Buffer (*pack)(const ConstTensor& weight, const CpuContext& context);
};

/// Runs the op by the kernel for the context's instruction set.
template <class Op>
void run(const Op& op, CpuContext& context) {
  std::get<Kernel<Op>>(kernels_of(context.kernel_set()).ops)(op, context);
}

}  // namespace babelring::cpu
