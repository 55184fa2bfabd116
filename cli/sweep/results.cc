#include "cli/sweep/results.h"

#include <algorithm>
#include <boost/json/object.hpp>
#include <cmath>
#include <limits>
#include <utility>

#include "base/json_get.h"
#include "base/parse_number.h"
#include "cli/sweep/sweep_runs.h"

namespace babelring {
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
