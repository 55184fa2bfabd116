#include "cli/sweep/grid.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <map>

#include "base/digest.h"
#include "base/files.h"
#include "base/log.h"
#include "base/options/options.h"
#include "base/options/program.h"
#include "base/text.h"
#include "cli/sweep/sweep_runs.h"
#include "nmt/train/setup/config.h"

namespace babelring {
namespace {

constexpr std::size_t max_grid_bytes = std::size_t{1} << 20;
constexpr std::int64_t max_sweep_ranks = 4096;
constexpr std::size_t max_sweep_name = 64, max_value_bytes = 256, max_axis_keys = 60;  // of labels of runs

const std::vector<std::string> grid_keys = {"name", "base", "ranks", "slurm", "set", "grid", "zip"};
/// Options of sbatch that say what a task needs. The others are the script's own.
const std::vector<std::string> slurm_options = {
    "time",       "mem",           "mem-per-cpu",     "mem-per-gpu", "gres",
    "gpus",       "gpus-per-task", "partition",       "qos",         "account",
    "constraint", "cpus-per-task", "ntasks-per-node", "nodes",       "exclusive",
    "exclude",    "nodelist",      "reservation",     "nice"};

/// Reads the members of a grid and says where a wrong one stands.
class GridReader {
 public:
  explicit GridReader(const std::string& file) : file_(file) {}

  SweepGrid read(const YAML::Node& root) {
    if (!root.IsMap()) refuse(root, "", "expected keys such as name, base and grid");
    for (const auto& [key, value] : members(root, "")) read_member(key, value);
    for (const char* needed : {"name", "base"}) {
      if (!root[needed]) refuse(root, needed, fmt::format("{}: missing", needed));
    }
    join_axes();
    check_size(root);
    return std::move(grid_);
  }

 private:
  [[noreturn]] void refuse(const YAML::Node& at, const std::string& key, const std::string& detail) const {
    throw ConfigError(key, detail, file_, at.Mark().line + 1, at.Mark().column + 1);
  }

  std::string scalar(const YAML::Node& node, const std::string& key) const {
    if (!node.IsScalar()) {
      const char* found = node.IsMap() ? "keys; write keys with dots, such as model.width" : "no single value";
      refuse(node, key, fmt::format("{}: expected a value, found {}", printable(key), found));
    }
    if (node.Scalar().size() > max_value_bytes) {
      refuse(node, key, fmt::format("{}: a value of more than {} bytes", printable(key), max_value_bytes));
    }
    return node.Scalar();
  }

  std::vector<YAML::Node> items(const YAML::Node& node, const std::string& key) const {
    if (!node.IsSequence()) refuse(node, key, fmt::format("{}: expected a list", printable(key)));
    return {node.begin(), node.end()};
  }

  /// The members of a mapping in their order. Refuses a key that stands there twice.
  std::vector<std::pair<std::string, YAML::Node>> members(const YAML::Node& node, const std::string& section) const {
    std::vector<std::pair<std::string, YAML::Node>> found;
    if (node.IsNull()) return found;
    if (!node.IsMap()) refuse(node, section, fmt::format("{}: expected keys with values", section));
    for (const auto& entry : node) {
      std::string key = scalar(entry.first, section.empty() ? "key" : section);
      const bool repeated = std::ranges::any_of(found, [&](const auto& other) { return other.first == key; });
      if (repeated) refuse(entry.first, key, fmt::format("{}: given twice", printable(key)));
      found.emplace_back(std::move(key), entry.second);
    }
    return found;
  }

  void read_member(const std::string& key, const YAML::Node& value) {
    if (key == "name") return read_name(value);
    if (key == "base") return read_base(value);
    if (key == "ranks") return read_ranks(value);
    if (key == "slurm") return read_slurm(value);
    if (key == "set") return read_set(value);
    if (key == "grid") return read_axes(value);
    if (key == "zip") {
      zip_ = value;
      return;
    }
    refuse(value, key, fmt::format("{}: unknown key{}", printable(key), did_you_mean(key, grid_keys)));
  }

  void read_name(const YAML::Node& value) {
    constexpr std::string_view allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
    grid_.name = scalar(value, "name");
    if (!grid_.name.empty() && grid_.name.size() <= max_sweep_name && grid_.name.front() != '.' &&
        grid_.name.find_first_not_of(allowed) == std::string::npos) {
      return;
    }
    refuse(value, "name",
           fmt::format("name: expected 1 to {} letters, digits, - . and _, found '{}'", max_sweep_name,
                       printable(grid_.name)));
  }

  void read_base(const YAML::Node& value) {
    grid_.base = scalar(value, "base");
    const std::filesystem::path beside = std::filesystem::path(file_).parent_path() / grid_.base;
    if (std::filesystem::exists(beside)) grid_.base = beside;
    if (std::filesystem::is_regular_file(grid_.base)) return;
    refuse(value, "base",
           fmt::format("base: no file '{}', neither beside the grid nor in this folder", printable(scalar(value, ""))));
  }

  void read_ranks(const YAML::Node& value) {
    const auto ranks = parse_decimal<std::int64_t>(scalar(value, "ranks"));
    if (!ranks || *ranks < 1 || *ranks > max_sweep_ranks) {
      refuse(value, "ranks",
             fmt::format("ranks: expected 1 to {}, found '{}'", max_sweep_ranks, printable(value.Scalar())));
    }
    grid_.ranks = *ranks;
  }

  void read_slurm(const YAML::Node& value) {
    constexpr std::string_view allowed =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._:,/=+@%[]()*&|";
    for (const auto& [key, node] : members(value, "slurm")) {
      if (std::ranges::find(slurm_options, key) == slurm_options.end()) {
        refuse(node, key,
               fmt::format("slurm: unknown option '{}'{}; expected one of {}", printable(key),
                           did_you_mean(key, slurm_options), fmt::join(slurm_options, ", ")));
      }
      const std::string text = scalar(node, key);
      if (text.empty() || text.find_first_not_of(allowed) != std::string::npos) {
        refuse(node, key,
               fmt::format("slurm: {}: expected a value without spaces and quotes, found '{}'", key, printable(text)));
      }
      grid_.slurm.emplace_back(key, text);
    }
  }

  /// Refuses a key that another place of the file gives, and the name, which a sweep gives itself.
  void take_key(const YAML::Node& at, const std::string& key) {
    if (key == "name") refuse(at, key, "name: a sweep names its runs itself");
    if (std::ranges::find(taken_, key) != taken_.end()) {
      refuse(at, key, fmt::format("{}: in both set and grid", printable(key)));
    }
    taken_.push_back(key);
  }

  void read_set(const YAML::Node& value) {
    for (const auto& [key, node] : members(value, "set")) {
      take_key(node, key);
      grid_.set.emplace_back(key, scalar(node, key));
    }
  }

  void read_axes(const YAML::Node& value) {
    for (const auto& [key, node] : members(value, "grid")) {
      take_key(node, key);
      SweepAxis axis{.keys = {key}, .points = {}};
      for (const YAML::Node& item : items(node, key)) axis.points.push_back({scalar(item, key)});
      if (axis.points.empty()) refuse(node, key, fmt::format("{}: expected at least one value", printable(key)));
      grid_.axes.push_back(std::move(axis));
      if (grid_.axes.size() > max_axis_keys) refuse(node, key, fmt::format("grid: more than {} keys", max_axis_keys));
    }
  }

  /// Joins the axes that `zip` names, at the place of the first.
  void join_axes() {
    if (!zip_ || zip_.IsNull()) return;
    for (const YAML::Node& list : items(zip_, "zip")) {
      SweepAxis* first = nullptr;
      for (const YAML::Node& item : items(list, "zip")) {
        const std::string key = scalar(item, "zip");
        const auto axis = std::ranges::find_if(
            grid_.axes, [&](const SweepAxis& each) { return each.keys == std::vector<std::string>{key}; });
        if (axis == grid_.axes.end() || &*axis == first) {
          refuse(item, "zip", fmt::format("zip: {} is no key of grid, or is in zip twice", printable(key)));
        }
        if (first == nullptr) {
          first = &*axis;
          continue;
        }
        if (axis->points.size() != first->points.size()) {
          refuse(item, "zip",
                 fmt::format("zip: {} has {} values, {} has {}", printable(key), axis->points.size(),
                             printable(first->keys[0]), first->points.size()));
        }
        join(*first, *axis);
      }
    }
    std::erase_if(grid_.axes, [](const SweepAxis& axis) { return axis.keys.empty(); });
  }

  static void join(SweepAxis& first, SweepAxis& other) {
    first.keys.push_back(other.keys[0]);
    for (std::size_t i = 0; i < first.points.size(); ++i) first.points[i].push_back(other.points[i][0]);
    other = {};
  }

  void check_size(const YAML::Node& root) const {
    std::int64_t cells = 1;
    for (const SweepAxis& axis : grid_.axes) {
      cells *= static_cast<std::int64_t>(axis.points.size());
      if (cells <= max_sweep_cells) continue;
      refuse(root["grid"], "grid", fmt::format("grid: more than {} cells", max_sweep_cells));
    }
  }

  const std::string& file_;
  SweepGrid grid_;
  YAML::Node zip_;
  std::vector<std::string> taken_;
};

}  // namespace

std::int64_t SweepGrid::size() const {
  std::int64_t cells = 1;
  for (const SweepAxis& axis : axes) cells *= static_cast<std::int64_t>(axis.points.size());
  return cells;
}

std::vector<Setting> SweepGrid::coordinates(std::int64_t cell) const {
  std::vector<Setting> found;
  std::int64_t stride = size();
  for (const SweepAxis& axis : axes) {
    stride /= static_cast<std::int64_t>(axis.points.size());
    const std::vector<std::string>& point = axis.points[static_cast<std::size_t>(cell / stride)];
    cell %= stride;
    for (std::size_t i = 0; i < axis.keys.size(); ++i) found.emplace_back(axis.keys[i], point[i]);
  }
  return found;
}

SweepGrid read_sweep_grid(const std::string& yaml, const std::string& file_name) {
  if (yaml.size() > max_grid_bytes) throw ConfigError("", "a grid of more than 1 MiB", file_name, 1, 1);
  try {
    return GridReader(file_name).read(YAML::Load(yaml));
  } catch (const YAML::Exception& error) {
    throw ConfigError("", error.msg, file_name, error.mark.line + 1, error.mark.column + 1);
  }
}

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
