#include "cli/sweep/cells.h"

#include <fmt/format.h>

#include <map>

#include "base/atomic_file.h"
#include "base/digest.h"
#include "base/log.h"
#include "base/nearest.h"
#include "base/options/program.h"
#include "cli/sweep/sweep_runs.h"
#include "nmt/train/setup/config.h"

namespace babelring {
namespace {

constexpr std::size_t id_digits = 12;

/// Throws ConfigError for a key that the configuration lacks: every cell would be invalid.
void check_keys(const SweepGrid& grid, const std::string& base) {
  TrainConfig config = read_stored_config(base, grid.base.string());
  OptionBinder binder;
  config.bind(binder);
  std::vector<std::string> used;
  for (const auto& [key, value] : grid.set) used.push_back(key);
  for (const auto& [key, value] : grid.coordinates(0)) used.push_back(key);
  for (const std::string& key : used) {
    if (binder.find(key)) continue;
    throw ConfigError(key, fmt::format("sweep {}: unknown key '{}'{}", grid.name, printable(key),
                                       did_you_mean_key(key, binder.keys())));
  }
}

/// Resolves the cell's configuration and names it.
void resolve(SweepCell& cell, const SweepGrid& grid, const std::string& base) {
  std::vector<std::string> overrides;
  for (const auto& [key, value] : grid.set) overrides.push_back(key + "=" + value);
  for (const auto& [key, value] : cell.coordinates) overrides.push_back(key + "=" + value);
  TrainConfig config = read_config(base, grid.base.string(), overrides);
  config.check_ranks(static_cast<int>(grid.ranks));
  config.name = grid.name;
  cell.id = sha256_hex(config_yaml(config)).substr(0, id_digits);
  cell.name = grid.name + "-" + cell.id;
  config.name = cell.name;
  cell.config = config_yaml(config);
}

}  // namespace

std::string SweepCell::text() const {
  std::string text;
  for (const auto& [key, value] : coordinates) text += fmt::format("{}{}={}", text.empty() ? "" : " ", key, value);
  return text.empty() ? "the only cell" : text;
}

std::vector<std::string> SweepCell::labels(const std::string& sweep) const {
  std::vector<std::string> labels = {fmt::format("{}={}", sweep_label, sweep), fmt::format("{}={}", cell_label, id)};
  for (const auto& [key, value] : coordinates) labels.push_back(key + "=" + value);
  return labels;
}

std::vector<SweepCell> expand_sweep(const SweepGrid& grid) {
  const std::string base = read_file(grid.base);
  check_keys(grid, base);
  std::vector<SweepCell> cells;
  std::map<std::string, std::int64_t> first;  // cells by id
  for (std::int64_t number = 1; number <= grid.size(); ++number) {
    SweepCell cell{.number = number, .coordinates = grid.coordinates(number - 1)};
    try {
      resolve(cell, grid, base);
      const auto [same, added] = first.emplace(cell.id, number);
      if (!added) cell.problem = fmt::format("the same configuration as cell {}", same->second);
    } catch (const UsageFailure& failure) {
      cell.problem = failure.what();
    }
    if (!cell.problem.empty()) cell.id.clear();
    cells.push_back(std::move(cell));
  }
  if (first.empty()) {
    throw UsageFailure(fmt::format("sweep {}: none of {} cells is valid; the first: {}", grid.name, cells.size(),
                                   cells.front().problem));
  }
  return cells;
}

void report_left_out(const std::vector<SweepCell>& cells, bool strict) {
  for (const SweepCell& cell : cells) {
    if (cell.problem.empty()) continue;
    const std::string line = fmt::format("cell {} ({}): {}", cell.number, printable(cell.text()), cell.problem);
    if (strict) throw UsageFailure("--strict: " + line);
    print_error(fmt::format("left out: {}\n", line));
  }
}

}  // namespace babelring
