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

}  // namespace babelring
