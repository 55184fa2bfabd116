#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "nmt/checkpoint/checkpoint.h"
#include "lab/probe/probe_compare.h"
#include "lab/probe/tensor_distance.h"

namespace babelring {

/// A parameter that is not the same in two checkpoints.
struct ParameterDifference {
  std::string name;
  Sameness sameness = Sameness::differs;  // not `same`
  Shape shape_a, shape_b;                 // of rank 0 where the checkpoint lacks the parameter
  bool in_a = true, in_b = true;
  TensorDistance distance;         // nothing is compared if shapes differ or a checkpoint lacks the parameter
  float worst_a = 0, worst_b = 0;  // the elements at distance.ulp.at
};

struct WeightsComparison {
  Sameness sameness = Sameness::same;            // `missing` counts as `differs`
  std::size_t parameters = 0;                    // that at least one checkpoint has
  std::vector<ParameterDifference> differences;  // in the order of the first checkpoint, then those only in the second
};

/// Compares the weights of two checkpoints, element by element. Throws Failure if a tensor is not f32.
WeightsComparison compare_weights(const Checkpoint& a, const Checkpoint& b, const Tolerance& tolerance);

json::object to_json(const WeightsComparison& comparison);

}  // namespace babelring
