#pragma once

#include <functional>
#include <string>
#include <vector>

#include "nmt/ops/backend.h"

namespace babelring {

/// An op with its own tensors.
struct PreparedOp {
  double flops = 0;  // of matmuls; 0: judged by bytes
  double bytes = 0;  // read and written at least once
  std::function<void()> run;
};

/// One row of the table: an op at a model's shape.
struct OpCase {
  std::string name;                             // linear_forward bf16 2048x512x512
  DType type = DType::f32;                      // which peak to hold the rate against
  std::function<PreparedOp(Backend&)> prepare;  // in the memory of a backend, which must outlive the op
  /// The error of a small twin of the op, relative to the largest value that the reference expects. The backend takes
  /// tensors in host memory.
  std::function<double(Backend&)> error;
};

/// The ops of a model preset (tiny, base, big) with `tokens` rows, logits with fewer. bf16 first.
std::vector<OpCase> op_cases(const std::string& preset, std::int64_t tokens);

}  // namespace babelring
