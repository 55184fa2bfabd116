#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "insight/predict/predict.h"
#include "insight/steps.h"

/// Predictions for a run on other hosts, links or settings, from its own step records.
namespace babelring::insight {

/// The run to change.
struct WhatIfRun {
  verdict::Input input;     // its newest steps
  double updates_left = 0;  // 0: unknown
  /// Rank 0's record of its ops in the newest attempt (lab.profile.start). A record of a model with another number of
  /// parameters is not used.
  std::optional<RankRecord> profile = {};
};

/// Settings to change. An absent one stays as the run has it.
struct WhatIfChange {
  std::optional<int> hosts = {}, ranks_per_host = {};
  std::optional<double> link_gbit = {}, latency_us = {};  // between hosts
  std::optional<GradientWire> wire = {};
  std::optional<double> bucket_mb = {};
  std::optional<int> accumulate = {};  // updates of today's size that one update replaces
  std::optional<AllReduceAlgorithm> algorithm = {};
  std::optional<OptimizerPlacement> optimizer = {};
  std::optional<double> straggler = {};  // per cent by which one rank computes slower

  static constexpr int max_ranks = 1024;
};

/// A step with what follows from it.
struct WhatIfStep {
  RunSetup setup;
  Prediction prediction;
  double seconds_left = 0;  // for the target tokens of the run's updates that are left; 0: unknown
};

struct WhatIf {
  double measured_ms = 0;  // sum of the parts
  StepParts measured;      // medians of the verdict's window
  double measured_tokens_per_s = 0, measured_seconds_left = 0;
  WhatIfStep baseline;        // the prediction for the run as it is
  double baseline_error = 0;  // of its step, relative to the measured one
  WhatIfStep predicted;
  std::vector<std::string> assumed, warnings;

  /// Whether the model describes the run well enough for predictions.
  bool fits() const { return baseline_error <= max_error && baseline_error >= -max_error; }
  static constexpr double max_error = 0.1;
};

/// An Error if fewer than verdict::min_updates updates can be used.
Status enough_updates(const WhatIfRun& run);

/// Predicts the changed run. Each rank keeps its tokens, so that more ranks make larger updates. The link's rate
/// follows from the measured time of the gradient sums; latency is assumed. Pure and deterministic. An Error without
/// enough_updates(), without the number of parameters, or for a change that no run can have. Numbers of the change must
/// be above 0, latency and straggler at least 0.
Result<WhatIf> what_if(const WhatIfRun& run, const WhatIfChange& change);

}  // namespace babelring::insight
