#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "lab/probe/probe_compare.h"
#include "lab/probe/probe_run.h"
#include "lab/probe/tensor_distance.h"
#include "nmt/checkpoint/checkpoint.h"

namespace babelring {

/// Runs of the same updates, compared with the first run.
struct RepeatResult {
  int runs = 0;
  int different = 0;                 // runs with a tensor that differs from the first run's
  std::optional<ProbeRecord> first;  // the earliest tensor that ever differed
  int first_different = 0;           // runs in which that tensor differed
};

/// Runs the plan's updates `runs` times in this process, at least 2. With `busy`, threads that compute nothing keep
/// every processor busy meanwhile. Throws as save_probe().
RepeatResult repeat_probe(const ProbePlan& plan, Backend& backend, int runs, bool busy);

/// A parameter that is not the same in two checkpoints.
struct ParameterDifference {
  std::string name;
  Sameness sameness = Sameness::differs;  // not `same`
  Shape shape_a, shape_b;                 // of rank 0 where the checkpoint lacks the parameter
  bool in_a = true, in_b = true;
  TensorDistance distance;         // nothing is compared if shapes differ or a checkpoint lacks the parameter
  float worst_a = 0, worst_b = 0;  // the elements at distance.ulp.at
};

/// The result of compare_weights().
struct WeightsComparison {
  Sameness sameness = Sameness::same;            // `missing` counts as `differs`
  std::size_t parameters = 0;                    // that at least one checkpoint has
  std::vector<ParameterDifference> differences;  // in the order of the first checkpoint, then those only in the second
};

/// Compares the weights of two checkpoints, element by element. Throws Failure if a tensor is not f32.
WeightsComparison compare_weights(const Checkpoint& a, const Checkpoint& b, const Tolerance& tolerance);

json::object to_json(const WeightsComparison& comparison);

}  // namespace babelring
