#pragma once

#include <memory>

#include "nmt/ops/cpu/cpu_context.h"
#include "nmt/ops/cpu/products.h"
#include "nmt/ops/linear.h"

namespace babelring::cpu {

/// The linear ops: bf16 on the matrix tiles where the processor has them (amx_product.h), packed weights elsewhere by
/// AVX-512 (packed_product.h), everything else as oneDNN products. Those have another number of rows at every update,
/// and a primitive for an exact shape takes 0.1 to 0.8 ms to make and up to 0.6 MB to keep. So primitives serve any
/// number of rows. In bf16 this costs forward and backward_data 5 to 15 %: there, a multiple of 256 rows has a
/// primitive for its exact shape, and only the remainder has one for any number of rows.
void run(const LinearForward& op, Products& products, CpuContext& workspace);
void run(const LinearBackwardData& op, Products& products, CpuContext& workspace);
void run(const LinearBackwardWeight& op, Products& products, CpuContext& workspace);

/// See Backend::pack(). Null where oneDNN multiplies.
std::unique_ptr<const PackedWeight> pack(const ConstTensor& weight, const CpuContext& workspace);

}  // namespace babelring::cpu
