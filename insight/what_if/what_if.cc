#include "insight/what_if/what_if.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "insight/what_if/run_model.h"

namespace babelring::insight {
namespace {

using verdict::UpdateSplit;

/// An Error if a window has too few updates.
Status enough_in(const std::vector<UpdateSplit>& window) {
  const std::size_t updates = window.size();
  if (updates >= verdict::min_updates) return {};
  return Error{fmt::format("all ranks have reported {} update{} after warm-up, expected at least {}", updates,
                           updates == 1 ? "" : "s", verdict::min_updates)};
}

}  // namespace

Status enough_updates(const WhatIfRun& run) {
  return enough_in(verdict::split_window(run.input));
}

Result<WhatIf> what_if(const WhatIfRun& run, const WhatIfChange& change) {
  const std::vector<UpdateSplit> window = verdict::split_window(run.input);
  if (const Status enough = enough_in(window); !enough) return Error{enough.error()};
  const RunModel model(run, window);
  WhatIf result;
  result.measured = model.measured();
  result.measured_ms = result.measured.total();
  result.assumed = model.assumed();
  const double ranks = model.setup().topology.ranks(), size = model.record().size;
  result.measured_tokens_per_s = size * ranks / result.measured_ms * 1000;
  const double tokens_left = run.updates_left * size * ranks;
  const auto seconds_left = [&](double tokens_per_s) { return tokens_per_s > 0 ? tokens_left / tokens_per_s : 0; };
  result.measured_seconds_left = seconds_left(result.measured_tokens_per_s);
  const Result<RunSetup> setup = model.changed(change, result.assumed, result.warnings);
  if (!setup) return Error{setup.error()};
  result.baseline = {model.setup(), model.predict(model.setup(), 0)};
  result.baseline_error = result.baseline.prediction.step_ms.median / result.measured_ms - 1;
  result.baseline.seconds_left = seconds_left(result.baseline.prediction.size_per_s);
  result.predicted = {*setup, model.predict(*setup, result.baseline_error)};
  // The model may leave the same out of the changed run as out of the measured run.
  Prediction& changed = result.predicted.prediction;
  const double error = std::abs(result.baseline_error);
  changed.low_ms = std::min(changed.low_ms, (1 - error) * changed.step_ms.median);
  changed.high_ms = std::max(changed.high_ms, (1 + error) * changed.step_ms.median);
  result.predicted.seconds_left = seconds_left(result.predicted.prediction.size_per_s);
  for (const std::string& warning : result.predicted.prediction.warnings) result.warnings.push_back(warning);
  return result;
}

}  // namespace babelring::insight
