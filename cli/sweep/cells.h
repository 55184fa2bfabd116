#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/sweep/grid.h"

namespace babelring {

/// A run of a sweep.
struct SweepCell {
  std::int64_t number = 0;  // from 1, as the grid counts
  std::vector<Setting> coordinates;
  std::string id;       // the first 12 digits of the SHA-256 of the resolved configuration; empty if left out
  std::string name;     // of the run: SWEEP-ID
  std::string config;   // resolved, as YAML
  std::string problem;  // why the cell is left out; empty if it is valid

  /// "model.width=36 training.seed=0".
  std::string text() const;
  /// The labels of its run, KEY=VALUE: `sweep`, the name of the sweep, cell and coordinates.
  std::vector<std::string> labels(const std::string& sweep) const;
};

/// All cells of a grid. A cell is left out if its configuration is invalid or another cell has the same; the result has
/// left-out cells, too.
/// Throws ConfigError if `base` cannot be read, a key is unknown, or no cell is valid.
std::vector<SweepCell> expand_sweep(const SweepGrid& grid);

/// Prints the cells that are left out, with their reasons. Throws UsageFailure instead if `strict`.
void report_left_out(const std::vector<SweepCell>& cells, bool strict);

}  // namespace babelring
