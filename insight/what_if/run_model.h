#pragma once

#include <string>
#include <vector>

#include "insight/steps.h"
#include "insight/what_if/what_if.h"

namespace babelring::insight {

/// A run as it is, fitted to its measured updates.
class RunModel {
 public:
  /// Both must outlive the model. `window` has at least one update.
  RunModel(const WhatIfRun& run, const std::vector<verdict::UpdateSplit>& window);

  const StepParts& measured() const { return measured_; }
  const RankRecord& record() const { return record_; }
  const RunSetup& setup() const { return setup_; }
  const std::vector<std::string>& assumed() const { return assumed_; }

  /// The setup with a change. Adds its assumptions and warnings.
  Result<RunSetup> changed(const WhatIfChange& change, std::vector<std::string>& assumed,
                           std::vector<std::string>& warnings) const;
  /// Predicts the run with this setup. `error`: of the model, relative to the measured update.
  Prediction predict(RunSetup setup, double error) const;

 private:
  const verdict::Facts& facts() const { return run_.input.facts; }
  bool is_profiled() const { return run_.profile && run_.profile->parameters == facts().parameters; }
  void find_ranks();
  void make_record();
  void find_buckets();
  void use_profile(const RankRecord& profile);
  void find_algorithm();
  void fit_link();
  void fit_readiness();
  double sums_ms(const Topology& topology) const;
  double nominal_gbit() const;

  const WhatIfRun& run_;
  const std::vector<verdict::UpdateSplit>& window_;
  StepParts measured_;
  RankRecord record_;
  RunSetup setup_;
  double data_ms_ = 0;  // waiting for data that does not limit the step
  std::vector<std::string> assumed_;
};

}  // namespace babelring::insight
