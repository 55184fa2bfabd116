#include "insight/report/report.h"

#include <fmt/format.h>

#include <cmath>
#include <sstream>
#include <utility>

#include "base/digest.h"
#include "base/text.h"
#include "insight/report/answers.h"
#include "insight/report/report_text.h"
#include "insight/steps.h"

namespace babelring::insight {
namespace {

constexpr const char* style = R"css(
:root { color-scheme: light dark; --text: #1b1b1b; --page: #ffffff; --line: #767676; --quiet: #595959; }
@media (prefers-color-scheme: dark) { :root { --text: #ededed; --page: #161616; --line: #8c8c8c; --quiet: #b5b5b5; } }
body { margin: 0; background: var(--page); color: var(--text); font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 56rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin: 2rem 0 0.5rem; }
.quiet { color: var(--quiet); font-size: 0.9rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.9rem; min-width: 34rem; } caption { text-align: left; font-weight: 600; padding: 0.5rem 0; }
th, td { border: 1px solid var(--line); padding: 0.25rem 0.5rem; text-align: left; }
td.long { overflow-wrap: anywhere; }
h1, p { overflow-wrap: anywhere; }
svg { max-width: 100%; height: auto; } figure { margin: 1rem 0; }
@media print { article { break-inside: avoid; } body { font-size: 11pt; } }
)css";

/// Whether a cell has a word, such as a digest, that may be broken so that the table fits the page.
bool has_long_word(const std::string& cell) {
  constexpr std::size_t long_word = 40;
  std::istringstream words(cell);
  for (std::string word; words >> word;) {
    if (word.size() >= long_word) return true;
  }
  return false;
}

std::string table_html(const AnswerTable& table) {
  std::string out = fmt::format(
      "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{0}\">\n<table>"
      "<caption>{0}</caption>\n<tr>",
      xml_text(table.title));
  for (const std::string& column : table.columns) out += "<th scope=\"col\">" + xml_text(column) + "</th>";
  out += "</tr>\n";
  for (const auto& row : table.rows) {
    out += "<tr>";
    for (const std::string& cell : row)
      out += (has_long_word(cell) ? "<td class=\"long\">" : "<td>") + xml_text(cell) + "</td>";
    out += "</tr>\n";
  }
  return out + "</table>\n</div>\n";
}

std::string answer_html(const Answer& answer) {
  std::string out = fmt::format("<article id=\"{}\">\n<h2>{}. {}</h2>\n<p>{}</p>\n", answer.key, answer.question_number,
                                xml_text(answer.question), xml_text(answer.text));
  for (const Plot& plot : answer.plots) out += "<figure>\n" + svg_of(plot, Background::none) + "</figure>\n";
  for (const AnswerTable& table : answer.tables) out += table_html(table);
  if (!answer.rests_on.empty()) {
    out += "<p class=\"quiet\">Rests on: " + xml_text(fmt::format("{}", fmt::join(answer.rests_on, "; "))) + ".</p>\n";
  }
  return out + "</article>\n";
}

std::string escaped_markdown(const std::string& text) {
  std::string out;
  for (const char letter : text) {
    if (letter == '<') {
      out += "&lt;";
      continue;
    }
    if (std::string_view("\\`*_[]|#").find(letter) != std::string_view::npos) out += '\\';
    out += letter == '\n' || letter == '\r' ? ' ' : letter;
  }
  return out;
}

std::string table_markdown(const AnswerTable& table) {
  const auto line = [](const std::vector<std::string>& cells) {
    std::string out = "|";
    for (const std::string& cell : cells) out += " " + escaped_markdown(cell) + " |";
    return out + "\n";
  };
  std::string out = escaped_markdown(table.title) + ":\n\n" + line(table.columns) + "|";
  for (std::size_t i = 0; i < table.columns.size(); ++i) out += "---|";
  out += "\n";
  for (const auto& row : table.rows) out += line(row);
  return out + "\n";
}

std::string heading(const Report& report) {
  return report.name.empty() ? "Report of run " + report.run : "Report of " + report.name;
}

std::string origin(const Report& report) {
  const std::string libraries = text_of(report.libraries);
  return fmt::format(
      "Run {}, {} with Babelring {}{}.{}", report.run, report.emulated ? "emulated" : "trained",
      report.version.empty() ? "of an unknown version" : report.version, libraries.empty() ? "" : ", " + libraries,
      report.emulated ? " Its ranks waited as long as a record says instead of computing: it has learned "
                        "nothing, and its times rest on that record."
                      : "");
}

}  // namespace

std::string report_html(const Report& report) {
  std::string out = fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{0}</title>\n"
      "<style>{1}</style>\n</head>\n<body>\n<main>\n<h1>{0}</h1>\n<p class=\"quiet\">{2}</p>\n",
      xml_text(heading(report)), style, xml_text(origin(report)));
  for (const Answer& answer : report.answers) out += answer_html(answer);
  return out + "</main>\n</body>\n</html>\n";
}

std::string report_markdown(const Report& report) {
  std::string out = fmt::format("# {}\n\n{}\n", escaped_markdown(heading(report)), escaped_markdown(origin(report)));
  for (const Answer& answer : report.answers) {
    out += fmt::format("\n## {}. {}\n\n{}\n\n", answer.question_number, escaped_markdown(answer.question),
                       escaped_markdown(answer.text));
    for (const AnswerTable& table : answer.tables) out += table_markdown(table);
    if (!answer.rests_on.empty()) {
      out += "Rests on: " + escaped_markdown(fmt::format("{}", fmt::join(answer.rests_on, "; "))) + ".\n";
    }
  }
  return out;
}

std::string report_security_policy() {
  return fmt::format(
      "default-src 'none'; style-src 'sha256-{}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; sandbox",
      base64_of_hex(sha256_hex(style)));
}

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
