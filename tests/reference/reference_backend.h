#pragma once

#include <memory>

#include "nmt/ops/backend.h"

namespace babelring {

/// Every op by the formulas of formulas.h: loads f32 or bf16, computes in double, rounds to the result's type.
/// Host memory, one thread, slow.
///
/// There is no f64 tensor: gradients are checked by central differences of the formulas themselves, which compute on
/// doubles (tests/nmt/ops), and backends and layers are then compared with this backend, or by differences in f32 with
/// wide steps.
std::unique_ptr<Backend> make_reference_backend();

}  // namespace babelring
