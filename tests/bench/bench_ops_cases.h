#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nmt/ops/backend.h"

namespace babelring {

/// One row of the table: an op at a model's shape.
struct OpCase {
  std::string name;                   // linear_forward bf16 2048x512x512
  double flops = 0;                   // of matrix products; 0: judged by bytes
  double bytes = 0;                   // read and written at least once
  DType type = DType::f32;            // which peak to hold the rate against
  std::function<void(Backend&)> run;  // on tensors the case owns
  std::function<double()> error;      // of a small twin, relative to the largest expected value, by the reference
};

/// `tokens` rows of transformer-base and transformer-tiny in sentences of about 30.
std::vector<OpCase> op_cases(std::int64_t tokens);

}  // namespace babelring
