#pragma once

#include <memory>

#include "nmt/ops/cpu/products.h"
#include "nmt/ops/cpu/workspace.h"
#include "nmt/ops/linear.h"

namespace babelring::cpu {

/// The linear ops: bf16 on the matrix tiles where the processor has them (amx_product.h), packed weights elsewhere by
/// AVX-512 (packed_product.h), everything else as oneDNN products. For those: packed batches have another number of
/// rows at every update, and making a primitive takes 0.1 to 0.8 ms: small products run as a multiple of 64 rows and a
/// remainder, so that their primitives recur; large ones are made for their exact rows.
void run(const LinearForward& op, Products& products, Workspace& workspace);
void run(const LinearBackwardData& op, Products& products, Workspace& workspace);
void run(const LinearBackwardWeight& op, Products& products, Workspace& workspace);

/// See Backend::pack(). Null where oneDNN multiplies.
std::unique_ptr<const PackedWeight> pack(const ConstTensor& weight, const Workspace& workspace);

}  // namespace babelring::cpu
