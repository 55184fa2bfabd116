#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace babelring {

/// A configuration key and its value as text.
using Setting = std::pair<std::string, std::string>;

/// Keys whose values vary together.
struct SweepAxis {
  std::vector<std::string> keys;                 // at least one
  std::vector<std::vector<std::string>> points;  // of each point: a value for each key
};

/// The input of `nmt sweep`: a base configuration, what all runs change in it, and the axes whose points it crosses.
struct SweepGrid {
  std::string name;            // letters, digits, - . and _
  std::filesystem::path base;  // configuration file
  std::int64_t ranks = 1;      // of each run
  std::vector<Setting> slurm;  // options of sbatch without dashes, and their values: time, mem, gres, …
  std::vector<Setting> set;
  std::vector<SweepAxis> axes;  // the last varies fastest

  /// The product of the axes' points.
  std::int64_t size() const;
  /// The settings of a cell, counted from 0, without those of `set`.
  std::vector<Setting> coordinates(std::int64_t cell) const;
};

inline constexpr std::int64_t max_sweep_cells = 10'000;

/// Reads a grid. `file_name` is for messages; a relative `base` is one beside that file if it is there, otherwise one
/// in the current folder. Throws ConfigError with file, line and column: unknown or repeated keys, wrong types, more
/// than max_sweep_cells cells. Whether configuration keys and values are valid is found by expand_sweep().
SweepGrid read_sweep_grid(const std::string& yaml, const std::string& file_name);

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
