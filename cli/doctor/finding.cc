#include "cli/doctor/finding.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <string_view>

namespace babelring {
namespace {

std::string_view word_for(Severity severity) {
  return severity == Severity::ok ? "ok" : severity == Severity::warn ? "warn" : "fail";
}

}  // namespace

std::string first_line(const std::filesystem::path& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return line;
}

Severity worst_of(const Diagnoses& findings) {
  Severity worst = Severity::ok;
  for (const Diagnosis& finding : findings) worst = std::max(worst, finding.severity);
  return worst;
}

std::string text_of(const Diagnoses& findings) {
  std::string text;
  for (const Diagnosis& finding : findings) {
    text += fmt::format("{:<5}{:<10}{}\n", word_for(finding.severity), finding.area, finding.text);
    if (!finding.advice.empty()) text += fmt::format("{:<15}-> {}\n", "", finding.advice);
  }
  return text;
}

json::object json_of(const Diagnoses& findings) {
  json::array list;
  for (const Diagnosis& finding : findings) {
    list.push_back(json::object{{"area", finding.area},
                                {"verdict", word_for(finding.severity)},
                                {"text", finding.text},
                                {"advice", finding.advice}});
  }
  return {{"verdict", word_for(worst_of(findings))}, {"findings", std::move(list)}};
}

}  // namespace babelring
