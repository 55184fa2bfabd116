#include "insight/report/report.h"

#include <cmath>
#include <utility>

#include "insight/report/answers.h"
#include "insight/report/report_text.h"
#include "insight/steps/config_scalar.h"

namespace babelring::insight {

namespace {

LibraryVersions libraries_of_ranks(const RunHistory& history) {
  std::vector<LibraryVersions> ranks;
  for (const RankHistory& rank : history.ranks) ranks.push_back(rank.libraries);
  return merged(ranks);
}

}  // namespace

Report make_report(const RunHistory& history) {
  Report report{.run = history.run,
                .name = history.name,
                .version = history.version,
                .emulated = verdict::config_scalar(history.config, "training.device") == "emulated",
                .libraries = libraries_of_ranks(history),
                .answers = {}};
  for (Answer (*const answer)(const RunHistory&) :
       {how_long, trained_to_the_end, overfitting, fully_used, network_bottleneck, learning_rate_plot, training_set,
        checkpoint_files, checkpoint_size, average_step, step_and_network, quality_over_time}) {
    report.answers.push_back(answer(history));
  }
  return report;
}

const Choices<ReportFormat>& report_formats() {
  static const Choices<ReportFormat> formats = {
      {"html", ReportFormat::html}, {"md", ReportFormat::markdown}, {"json", ReportFormat::json}};
  return formats;
}

std::string render(const Report& report, ReportFormat format) {
  switch (format) {
    case ReportFormat::html:
      return report_html(report);
    case ReportFormat::markdown:
      return report_markdown(report);
    case ReportFormat::json:
      break;
  }
  return to_text(report_json(report)) + "\n";
}

namespace {

json::object plot_json(const Plot& plot) {
  const auto values = [](const std::vector<double>& numbers) {
    json::array array;
    for (const double number : numbers) array.push_back(std::isfinite(number) ? json::value(rounded(number)) : nullptr);
    return array;
  };
  json::array series;
  for (const PlotSeries& each : plot.series) {
    series.push_back({{"name", each.name}, {"values", values(each.values)}, {"predicted", each.dashed}});
  }
  const bool lines = plot.kind == Plot::Kind::lines;
  json::object object = {{"title", plot.title}, {"x_label", plot.x_label}, {"y_label", plot.y_label}};
  object["x"] = lines ? values(plot.x) : json::array(plot.categories.begin(), plot.categories.end());
  object["series"] = std::move(series);
  return object;
}

json::array texts(const std::vector<std::string>& lines) {
  return json::array(lines.begin(), lines.end());
}

json::object answer_json(const Answer& answer) {
  json::array numbers, tables, plots;
  for (const AnswerNumber& number : answer.numbers) {
    const json::value value = std::isfinite(number.value) ? json::value(rounded(number.value)) : json::value(nullptr);
    numbers.push_back({{"name", number.name}, {"value", value}, {"unit", number.unit}});
  }
  for (const AnswerTable& table : answer.tables) {
    json::array rows;
    for (const auto& row : table.rows) rows.push_back(texts(row));
    tables.push_back({{"title", table.title}, {"columns", texts(table.columns)}, {"rows", std::move(rows)}});
  }
  for (const Plot& plot : answer.plots) plots.push_back(plot_json(plot));
  return {{"number", answer.question_number},
          {"key", answer.key},
          {"question", answer.question},
          {"known", answer.known},
          {"answer", answer.text},
          {"numbers", std::move(numbers)},
          {"tables", std::move(tables)},
          {"plots", std::move(plots)},
          {"rests_on", texts(answer.rests_on)}};
}

}  // namespace

json::object report_json(const Report& report) {
  json::array answers;
  for (const Answer& answer : report.answers) answers.push_back(answer_json(answer));
  return {{"format", 1},
          {"run", report.run},
          {"name", report.name},
          {"version", report.version},
          {"emulated", report.emulated},
          {"environment", json::object{{"libraries", to_json(report.libraries)}}},
          {"answers", std::move(answers)}};
}

}  // namespace babelring::insight
