#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/json.h"
#include "nmt/ops/backend.h"

namespace babelring {

/// Has a backend compute each matmul of a model's update once, in bf16, and returns its reports
/// (Backend::matmul_reports()) as rows {"preset", "layer", "product", "epilogue", …}; a layer whose matmul fails has
/// a row {"preset", "layer", "failure"}. `each` gets each row as soon as it is known. `preset`: tiny, base or big;
/// `tokens`: rows of each matmul, those of the logits as many as the loss takes at once. The backend must be tuned
/// (tune_matmuls()) for times.
json::array matmul_table(Backend& backend, const std::string& preset, std::int64_t tokens,
                         const std::function<void(const json::object&)>& each);

}  // namespace babelring
