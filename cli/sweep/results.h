#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "cli/sweep/grid.h"

namespace babelring {

/// Names of the figures that `nmt sweep show` knows.
const std::vector<std::string>& sweep_metrics();

/// Where a figure of a run is taken from: its newest evaluation, or the best one.
enum class SweepAt { last, best };

/// A cell's run and its figure.
struct SweepResult {
  std::string cell, run, state, detail;
  std::int64_t update = 0;
  std::vector<Setting> coordinates;
  std::optional<double> value;  // nothing: not evaluated yet, or not finite
};

/// Cells that differ in training.seed only.
struct SweepMean {
  std::vector<Setting> coordinates;  // without training.seed
  std::int64_t cells = 0;            // of the group
  std::int64_t count = 0;            // of these with a value
  double mean = 0;                   // NaN without a value
  double deviation = 0;              // standard deviation over the values; NaN with fewer than two
};

/// The first of excess, sacrebleu and loss that a run has; loss if none has any.
std::string default_metric(const std::map<std::string, json::object>& runs);

/// The figure of each run, sorted by coordinates: numbers by value. Runs are items of GET /runs, by cell.
std::vector<SweepResult> sweep_results(const std::map<std::string, json::object>& runs, const std::string& metric,
                                       SweepAt at);

/// In the order of the results.
std::vector<SweepMean> sweep_means(const std::vector<SweepResult>& results);

/// The names of all coordinates.
std::vector<std::string> coordinate_names(const std::vector<SweepResult>& results);
/// A coordinate's value; "" without it.
std::string coordinate(const std::vector<Setting>& coordinates, const std::string& name);

}  // namespace babelring
