#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "nmt/data/gssm/config.h"
#include "nmt/data/gssm/likelihood.h"

namespace babelring {

/// The alphas and kernel seeds of `nmt gssm difficulty`.
struct DifficultyGrid {
  std::vector<double> alphas_x, alphas_z;  // empty: those of the configuration
  std::int64_t kernel_seeds = 1;           // kernel_seed, kernel_seed + 1, …
};

/// One graph to measure.
struct DifficultyCell {
  GssmOptions options;
  std::int64_t seed = 1;  // of the sequences
  std::int64_t sequences = 0, length = 0;
  std::int64_t entropy_sequences = 0;  // of these, whose likelihood is computed; 0: none
};

/// The figures of one cell.
struct DifficultyResult {
  double difficulty = 0;             // bytes of zlib a token
  double difficulty_normalised = 0;  // over the difficulty of uniform noise with the same vocabulary
  GssmEntropy entropy;               // if entropy_sequences > 0
};

/// The alphas of a text LOW:HIGH:COUNT, in equal ratios from LOW to HIGH, or of one number. Throws UsageFailure naming
/// `option`.
std::vector<double> parse_alphas(const std::string& text, const std::string& option);

/// The cells of the grid: alpha_X, then alpha_Z, then kernel seeds. Throws UsageFailure if the grid varies an alpha
/// that no node takes, because each has its own.
std::vector<GssmOptions> difficulty_cells(const GssmOptions& options, const DifficultyGrid& grid);

/// A line of the file of results. Its member `key` is difficulty_key().
json::object difficulty_line(const DifficultyCell& cell, const DifficultyResult& result);

/// Identifies a cell by its graph, its measures and the zlib library: figures of another library are measured again.
std::string difficulty_key(const DifficultyCell& cell);
/// The lines of the cells that a file of results holds, by key. Skips a line that is not JSON or has no numbers for
/// alphas and difficulty, such as one cut off when the program was killed.
std::map<std::string, json::object> finished_lines(std::string_view lines);

/// A map of the mean difficulty over kernel seeds as SVG: alpha_Z to the right, alpha_X upwards, a field for each pair.
/// `lines`: of cells, at least one.
std::string difficulty_map(const std::vector<json::object>& lines);

}  // namespace babelring
