#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/choices.h"
#include "base/json.h"
#include "base/records/library_versions.h"
#include "insight/report/answers.h"
#include "insight/report/run_history.h"

namespace babelring::insight {

/// Twelve questions about a run with their answers.
struct Report {
  std::string run, name, version;
  bool emulated = false;        // its ranks waited instead of computing
  LibraryVersions libraries;    // of all ranks; "2.6.3 / 3.7.2" where they differ
  std::vector<Answer> answers;  // by their numbers
};

/// Answers all questions. Pure: the same records give the same report.
Report make_report(const RunHistory& history);

enum class ReportFormat { html, markdown, json };
const Choices<ReportFormat>& report_formats();  // html, md, json

/// The report as text: one HTML file with inline SVG and without script, Markdown without plots, or a JSON object
/// (docs/formats.md). Ends with a newline.
std::string render(const Report& report, ReportFormat format);

std::string report_html(const Report& report);
std::string report_markdown(const Report& report);
json::object report_json(const Report& report);

/// The value of the header Content-Security-Policy for the HTML: its own styles, by their digest, nothing else.
std::string report_security_policy();

}  // namespace babelring::insight
