#include "lab/parameters/window_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <span>
#include <string>
#include <tuple>

#include "base/json.h"

namespace babelring {

namespace {

constexpr std::size_t listed_rows = 10;
constexpr std::size_t bins = 20;  // of changed / updates
constexpr double cold_fraction = 0.01;

std::span<const RowCount> rows_of(const ParameterWindow& window, std::int64_t begin, std::int64_t end) {
  return std::span(window.rows).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
}

/// With five significant digits, which keeps the summary small enough to travel.
double rounded(double value) {
  return std::stod(fmt::format("{:.5g}", value));
}

/// min, mean and max of a counter over rows.
template <class Counter>
json::object spread(std::span<const RowCount> rows, Counter&& counter) {
  double least = counter(rows[0]), most = least, sum = 0;
  for (const RowCount& row : rows) {
    const double value = counter(row);
    least = std::min(least, value), most = std::max(most, value), sum += value;
  }
  return {{"min", rounded(least)}, {"mean", rounded(sum / static_cast<double>(rows.size()))}, {"max", rounded(most)}};
}

json::array histogram(std::span<const RowCount> rows, std::int64_t updates) {
  std::vector<std::int64_t> counts(bins);
  for (const RowCount& row : rows) {
    const auto bin = static_cast<std::size_t>(row.changed) * bins / static_cast<std::size_t>(updates);
    ++counts[std::min(bin, bins - 1)];
  }
  return json::array(counts.begin(), counts.end());
}

json::object listed(const ParameterWindow& window, const TracedParameter& parameter, std::int64_t row,
                    const Vocabulary* vocabulary) {
  const RowCount& count = window.rows[static_cast<std::size_t>(parameter.first_row + row)];
  json::object item{
      {"row", row}, {"changed", count.changed}, {"ratio", rounded(static_cast<double>(mean_ratio(count)))}};
  const std::string label = row_label(parameter, row, window.heads, vocabulary);
  if (!label.empty()) item["label"] = label;
  return item;
}

/// The hottest rows have the largest mean ratio; the coldest changed least often, then least.
void add_hottest_and_coldest(const ParameterWindow& window, const TracedParameter& parameter,
                             const Vocabulary* vocabulary, json::object& to) {
  const auto rows = rows_of(window, parameter.first_row, parameter.first_row + parameter.rows);
  std::vector<std::size_t> order(rows.size());
  const std::size_t count = std::min(listed_rows, rows.size());
  const auto list = [&](const auto& key) {
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
                      [&](std::size_t a, std::size_t b) { return key(a) < key(b); });
    json::array items;
    for (std::size_t i = 0; i < count; ++i) {
      items.push_back(listed(window, parameter, static_cast<std::int64_t>(order[i]), vocabulary));
    }
    return items;
  };
  to["hottest"] = list([&](std::size_t row) { return std::tuple(-mean_ratio(rows[row]), -rows[row].changed, row); });
  to["coldest"] = list([&](std::size_t row) { return std::tuple(rows[row].changed, mean_ratio(rows[row]), row); });
}

void add_fractions(const RowFractions& rows, json::object& to) {
  to["cold"] = rounded(rows.cold);
  to["lost_in_rounding"] = rounded(rows.lost_in_rounding);
  to["untouched_share"] = rounded(rows.untouched);
}

json::object summary_of(const ParameterWindow& window, const TracedParameter& parameter, const Vocabulary* vocabulary) {
  const std::int64_t end = parameter.first_row + parameter.rows;
  const auto rows = rows_of(window, parameter.first_row, end);
  json::object summary{{"name", parameter.name},           {"rows", parameter.rows},
                       {"width", parameter.width},         {"rows_are", name_of(parameter.kind)},
                       {"first_row", parameter.first_row}, {"frozen", parameter.frozen}};
  summary["changed"] = spread(rows, [](const RowCount& row) { return row.changed; });
  summary["changed_elements"] =
      spread(rows, [](const RowCount& row) { return static_cast<double>(row.changed_elements); });
  summary["visible"] = spread(rows, [](const RowCount& row) { return row.visible; });
  summary["untouched"] = spread(rows, [](const RowCount& row) { return row.counted - row.touched; });
  summary["ratio"] = spread(rows, [](const RowCount& row) { return static_cast<double>(mean_ratio(row)); });
  summary["max_ratio"] = spread(rows, [](const RowCount& row) { return static_cast<double>(row.max_ratio); });
  summary["histogram"] = histogram(rows, window.updates);
  add_fractions(fractions_of(window, parameter.first_row, end), summary);
  if (parameter.rows > 1) add_hottest_and_coldest(window, parameter, vocabulary, summary);
  return summary;
}

}  // namespace

float mean_ratio(const RowCount& row) {
  return row.measured == 0 ? 0 : static_cast<float>(row.ratios / row.measured);
}

RowFractions fractions_of(const ParameterWindow& window, std::int64_t begin, std::int64_t end) {
  std::int64_t cold = 0, changed = 0, visible = 0, touched = 0;
  for (const RowCount& row : rows_of(window, begin, end)) {
    cold += row.changed < cold_fraction * static_cast<double>(window.updates) ? 1 : 0;
    changed += row.changed, visible += row.visible, touched += row.touched;
  }
  const auto rows = static_cast<double>(end - begin), updates = static_cast<double>(window.updates);
  return {.cold = static_cast<double>(cold) / rows,
          .lost_in_rounding = changed == 0 ? 0 : 1 - static_cast<double>(visible) / static_cast<double>(changed),
          .untouched = 1 - static_cast<double>(touched) / (rows * updates)};
}

boost::json::object summarize(const ParameterWindow& window, const Vocabulary* vocabulary) {
  json::object summary{{"run", window.run},
                       {"time_ms", window.time_ms},
                       {"first_update", window.first_update},
                       {"last_update", window.last_update},
                       {"updates", window.updates},
                       {"heads", window.heads},
                       {"precision", window.precision},
                       {"rows", static_cast<std::int64_t>(window.rows.size())}};
  add_fractions(fractions_of(window, 0, std::ssize(window.rows)), summary);
  json::array parameters;
  for (const TracedParameter& parameter : window.parameters) {
    parameters.push_back(summary_of(window, parameter, vocabulary));
  }
  summary["parameters"] = std::move(parameters);
  return summary;
}

}  // namespace babelring
