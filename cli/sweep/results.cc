#include "cli/sweep/results.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <boost/json/object.hpp>
#include <cmath>
#include <iostream>
#include <limits>
#include <memory>
#include <utility>

#include "base/csv.h"
#include "base/json.h"
#include "base/log.h"
#include "base/options/usage.h"
#include "base/text.h"
#include "cli/runs/run_commands.h"
#include "cli/runs/table.h"
#include "cli/sweep/sweep_runs.h"

namespace babelring {
namespace {

struct SweepShowArguments {
  std::string sweep, metric;
  SweepAt at = SweepAt::best;
  bool as_csv = false;
  ServerChoice server;
};

/// A sweep as `nmt sweep show` prints it.
struct SweepView {
  std::string sweep, metric;
  SweepAt at = SweepAt::best;
  std::string states;
  std::vector<SweepResult> results;
  std::vector<SweepMean> means;  // empty unless cells differ in training.seed

  const char* at_word() const { return at == SweepAt::best ? "best" : "last"; }
};

json::object settings_json(const std::vector<Setting>& settings) {
  json::object object;
  for (const auto& [key, value] : settings) object[key] = value;
  return object;
}

json::object view_json(const SweepView& view) {
  json::array cells, means;
  for (const SweepResult& result : view.results) {
    cells.push_back(json::object{{"cell", result.cell},
                                 {"run", result.run},
                                 {"state", result.state},
                                 {"detail", result.detail},
                                 {"update", result.update},
                                 {"coordinates", settings_json(result.coordinates)},
                                 {"value", result.value ? json::value(*result.value) : json::value(nullptr)}});
  }
  for (const SweepMean& mean : view.means) {
    means.push_back(json::object{{"coordinates", settings_json(mean.coordinates)},
                                 {"cells", mean.cells},
                                 {"count", mean.count},
                                 {"mean", mean.mean},
                                 {"deviation", mean.deviation}});
  }
  return {{"sweep", view.sweep},
          {"metric", view.metric},
          {"at", view.at_word()},
          {"cells", std::move(cells)},
          {"means", std::move(means)}};
}

void print_sweep_csv(const SweepView& view) {
  const std::vector<std::string> names = coordinate_names(view.results);
  fmt::print("cell,run,state,update");
  for (const std::string& name : names) fmt::print(",{}", csv_field(name));
  fmt::print(",{}\n", view.metric);
  for (const SweepResult& result : view.results) {
    fmt::print("{},{},{},{}", result.cell, result.run, result.state, result.update);
    for (const std::string& name : names) fmt::print(",{}", csv_field(coordinate(result.coordinates, name)));
    fmt::print(",{}\n", result.value ? fmt::format("{}", *result.value) : "");
  }
}

std::vector<Table::Column> coordinate_columns(const std::vector<std::string>& names) {
  std::vector<Table::Column> columns;
  for (const std::string& name : names) columns.push_back({.title = printable(name), .right = true, .importance = 90});
  return columns;
}

void print_cells(const SweepView& view, const std::vector<std::string>& names, const Screen& screen) {
  std::vector<Table::Column> columns = {{.title = "RUN", .importance = 60}, {.title = "STATE", .importance = 100}};
  for (Table::Column& column : coordinate_columns(names)) columns.push_back(std::move(column));
  columns.push_back({.title = "UPDATE", .right = true, .importance = 50});
  columns.push_back({.title = view.metric, .right = true, .importance = 100});
  columns.push_back({.title = "WHY", .importance = 20, .shrinks = true});
  Table table(std::move(columns));
  for (const SweepResult& result : view.results) {
    std::vector<Table::Cell> row = {{result.run}, {result.state, colour_of_state(result.state)}};
    for (const std::string& name : names) row.push_back({printable(coordinate(result.coordinates, name))});
    row.push_back({grouped(static_cast<double>(result.update))});
    row.push_back({fixed_text(result.value, 4)});
    row.push_back({result.state == "failed" ? printable(result.detail) : ""});
    table.add(std::move(row));
  }
  table.print(screen);
}

void print_means(const SweepView& view, std::vector<std::string> names, const Screen& screen) {
  std::erase(names, "training.seed");
  std::vector<Table::Column> columns = coordinate_columns(names);
  columns.push_back({.title = "SEEDS", .right = true, .importance = 80});
  columns.push_back({.title = "mean " + view.metric, .right = true, .importance = 100});
  columns.push_back({.title = "deviation", .right = true, .importance = 100});
  Table table(std::move(columns));
  for (const SweepMean& mean : view.means) {
    std::vector<Table::Cell> row;
    for (const std::string& name : names) row.push_back({printable(coordinate(mean.coordinates, name))});
    row.push_back(
        {mean.count == mean.cells ? fmt::format("{}", mean.count) : fmt::format("{} of {}", mean.count, mean.cells)});
    row.push_back({std::isfinite(mean.mean) ? fmt::format("{:.4f}", mean.mean) : ""});
    row.push_back({std::isfinite(mean.deviation) ? fmt::format("{:.4f}", mean.deviation) : ""});
    table.add(std::move(row));
  }
  screen.out << "\nover training.seed\n";
  table.print(screen);
}

std::map<std::string, json::object> runs_to_show(const SweepShowArguments& arguments) {
  if (is_sweep_folder(arguments.sweep)) return folder_runs(arguments.sweep);
  ApiClient api(arguments.server.access());
  return require_sweep_runs(api, arguments.sweep);
}

void show_sweep(const SweepShowArguments& arguments) {
  const std::vector<std::string>& metrics = sweep_metrics();
  if (!arguments.metric.empty() && std::ranges::find(metrics, arguments.metric) == metrics.end()) {
    throw UsageFailure(fmt::format("--metric: '{}' is no metric{}; expected one of {}", printable(arguments.metric),
                                   did_you_mean(arguments.metric, metrics), fmt::join(metrics, ", ")));
  }
  const auto runs = runs_to_show(arguments);
  SweepView view{.sweep = arguments.sweep,
                 .metric = arguments.metric.empty() ? default_metric(runs) : arguments.metric,
                 .at = arguments.at,
                 .states = count_states(runs),
                 .results = {},
                 .means = {}};
  view.results = sweep_results(runs, view.metric, view.at);
  const std::vector<std::string> names = coordinate_names(view.results);
  if (std::ranges::find(names, "training.seed") != names.end()) view.means = sweep_means(view.results);
  if (arguments.as_csv) return print_sweep_csv(view);
  const Screen screen = Screen::of_stdout();
  if (arguments.server.as_json) {
    screen.out << to_text(view_json(view)) << '\n';
    return;
  }
  screen.out << fmt::format("{}: {}; {} of the {} evaluation\n", printable(view.sweep), view.states, view.metric,
                            view.at == SweepAt::best ? "best" : "newest");
  print_cells(view, names, screen);
  if (!view.means.empty()) print_means(view, names, screen);
}

}  // namespace

void add_sweep_show(CLI::App& sweep) {
  CLI::App* command =
      sweep.add_subcommand("show", "Shows the runs of a sweep with a metric, and its mean and spread over seeds");
  const auto arguments = std::make_shared<SweepShowArguments>();
  command
      ->add_option("sweep", arguments->sweep,
                   "name of the sweep on the server, or folder of `nmt sweep expand`, whose spools are read instead")
      ->required();
  command->add_option("--metric", arguments->metric,
                      "excess, loss, sacrebleu, …; default: the first of excess, sacrebleu and loss that a run has");
  add_choice(*command, "--at", arguments->at, {{"best", SweepAt::best}, {"last", SweepAt::last}},
             "the evaluation that gives the metric: of each run the best or the newest");
  auto* csv = command->add_flag("--csv", arguments->as_csv, "print the cells as CSV");
  arguments->server.declare(*command);
  csv->excludes("--json");
  command->callback([arguments] { show_sweep(*arguments); });
}

namespace {

constexpr double no_value = std::numeric_limits<double>::quiet_NaN();
constexpr const char* seed_key = "training.seed";

std::optional<double> figure_of(const json::object& run, const std::string& metric, SweepAt at) {
  if (metric == "train_loss") return get_number(run, "loss");
  if (metric == "target_tokens_per_second") return get_number(run, metric);
  const json::object* evaluation = get_object(run, at == SweepAt::best ? "best" : "last_eval");
  return evaluation == nullptr ? std::nullopt : get_number(*evaluation, metric);
}

std::vector<Setting> coordinates_of(const json::object& run) {
  std::vector<Setting> found;
  const json::object* labels = get_object(run, "labels");
  if (labels == nullptr) return found;
  for (const auto& [name, value] : *labels) {
    if (name == sweep_label || name == cell_label || !value.is_string()) continue;
    found.emplace_back(name, value.get_string());
  }
  return found;
}

/// Orders numbers by value, before other texts.
bool value_less(const std::string& a, const std::string& b) {
  const auto first = parse_number<double>(a), second = parse_number<double>(b);
  if (first && second && *first != *second) return *first < *second;
  if (first.has_value() != second.has_value()) return first.has_value();
  return a < b;
}

bool setting_less(const Setting& a, const Setting& b) {
  return a.first != b.first ? a.first < b.first : value_less(a.second, b.second);
}

/// Completes the mean of a group of values.
void complete(SweepMean& mean, const std::vector<double>& values) {
  mean.count = std::ssize(values);
  mean.mean = mean.deviation = no_value;
  if (values.empty()) return;
  double sum = 0, squares = 0;
  for (const double value : values) sum += value;
  mean.mean = sum / static_cast<double>(values.size());
  for (const double value : values) squares += (value - mean.mean) * (value - mean.mean);
  if (values.size() > 1) mean.deviation = std::sqrt(squares / static_cast<double>(values.size() - 1));
}

}  // namespace

const std::vector<std::string>& sweep_metrics() {
  static const std::vector<std::string> names = {"excess",     "loss",
                                                 "nll",        "entropy",
                                                 "accuracy",   "sacrebleu",
                                                 "chrf",       "teacher_forced_bleu",
                                                 "train_loss", "target_tokens_per_second"};
  return names;
}

std::string default_metric(const std::map<std::string, json::object>& runs) {
  for (const char* metric : {"excess", "sacrebleu"}) {
    for (const auto& [cell, run] : runs) {
      if (figure_of(run, metric, SweepAt::best)) return metric;
    }
  }
  return "loss";
}

std::vector<SweepResult> sweep_results(const std::map<std::string, json::object>& runs, const std::string& metric,
                                       SweepAt at) {
  std::vector<SweepResult> results;
  for (const auto& [cell, run] : runs) {
    results.push_back({.cell = cell,
                       .run = get_text(run, "id"),
                       .state = get_text(run, "state"),
                       .detail = get_text(run, "detail"),
                       .update = get_integer(run, "update"),
                       .coordinates = coordinates_of(run),
                       .value = figure_of(run, metric, at)});
  }
  std::ranges::sort(results, [](const SweepResult& a, const SweepResult& b) {
    return std::ranges::lexicographical_compare(a.coordinates, b.coordinates, setting_less);
  });
  return results;
}

std::vector<SweepMean> sweep_means(const std::vector<SweepResult>& results) {
  std::vector<SweepMean> means;
  std::vector<std::vector<double>> values;             // of each mean
  std::map<std::vector<Setting>, std::size_t> groups;  // indices of means by coordinates
  for (const SweepResult& result : results) {
    std::vector<Setting> others = result.coordinates;
    std::erase_if(others, [](const Setting& setting) { return setting.first == seed_key; });
    const auto [group, added] = groups.emplace(others, means.size());
    if (added) {
      means.push_back({.coordinates = std::move(others)});
      values.emplace_back();
    }
    ++means[group->second].cells;
    if (result.value) values[group->second].push_back(*result.value);
  }
  for (std::size_t i = 0; i < means.size(); ++i) complete(means[i], values[i]);
  return means;
}

std::vector<std::string> coordinate_names(const std::vector<SweepResult>& results) {
  std::vector<std::string> names;
  for (const SweepResult& result : results) {
    for (const auto& [name, value] : result.coordinates) {
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
  }
  return names;
}

std::string coordinate(const std::vector<Setting>& coordinates, const std::string& name) {
  const auto found = std::ranges::find(coordinates, name, &Setting::first);
  return found == coordinates.end() ? std::string() : found->second;
}

}  // namespace babelring
