#include "client/problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cctype>

#include "base/json.h"
#include "base/json_get.h"
#include "base/log.h"

namespace babelring {
namespace {

constexpr std::size_t quoted_bytes = 100;   // max bytes quoted from a body other than problem+json
constexpr std::size_t member_bytes = 1000;  // max bytes of each problem+json member
constexpr std::size_t max_faults_told = 3;

std::string text_of(const json::object& object, std::string_view name) {
  return printable(get_text(object, name).substr(0, member_bytes));
}

std::vector<Problem::Fault> faults_of(const json::object& problem) {
  std::vector<Problem::Fault> faults;
  const json::value* member = problem.if_contains("errors");
  if (member == nullptr || !member->is_array()) return faults;
  for (const json::value& entry : member->get_array()) {
    if (!entry.is_object()) continue;
    const std::int64_t line = get_integer(entry.get_object(), "line");
    Problem::Fault fault{.place = text_of(entry.get_object(), "pointer"),
                         .detail = text_of(entry.get_object(), "detail")};
    if (line > 0) fault.place += fmt::format("{}line {}", fault.place.empty() ? "" : ", ", line);
    faults.push_back(std::move(fault));
  }
  return faults;
}

/// The title of an HTML page; empty without one.
std::string page_title(std::string_view body) {
  const auto is_same = [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; };
  const auto find = [&](std::string_view text, std::size_t from) {
    const auto at =
        std::search(body.begin() + static_cast<std::ptrdiff_t>(from), body.end(), text.begin(), text.end(), is_same);
    return at == body.end() ? std::string_view::npos : static_cast<std::size_t>(at - body.begin());
  };
  const std::size_t open = find("<title", 0);
  const std::size_t begin = open == std::string_view::npos ? open : body.find('>', open);
  if (begin == std::string_view::npos) return "";
  const std::size_t end = find("</title", begin);
  return end == std::string_view::npos ? "" : std::string(body.substr(begin + 1, end - begin - 1));
}

/// The detail for an answer that is no problem+json.
std::string describe_other(const HttpResponse& answer) {
  if (const std::string_view location = answer.header("location"); answer.status / 100 == 3 && !location.empty()) {
    return "moved to " + printable(location.substr(0, member_bytes));
  }
  if (const std::string title = page_title(answer.body); !title.empty()) {
    return fmt::format("a page titled '{}'", printable(std::string_view(title).substr(0, quoted_bytes)));
  }
  return printable(std::string_view(answer.body).substr(0, quoted_bytes));
}

}  // namespace

Problem read_problem(const HttpResponse& answer) {
  Problem problem{.status = answer.status, .code = {}, .title = {}, .detail = {}, .faults = {}};
  if (const auto body = parse_json(answer.body); body.ok() && body->is_object()) {
    const json::object& object = body->get_object();
    problem.code = text_of(object, "code");
    problem.title = text_of(object, "title");
    problem.detail = text_of(object, "detail");
    problem.faults = faults_of(object);
  }
  if (problem.title.empty() && problem.detail.empty()) {
    problem.detail = describe_other(answer);
  }
  return problem;
}

bool is_final(int status) {
  return status / 100 == 4 && status != 408 && status != 429;
}

std::string describe(const Problem& problem) {
  std::string text = problem.detail.empty() ? problem.title : problem.detail;
  std::size_t told = 0;
  for (const Problem::Fault& fault : problem.faults) {
    if (told++ == max_faults_told) break;
    const bool known = !fault.detail.empty() && fault.detail == problem.detail;
    if (!known && !fault.detail.empty() && problem.detail.ends_with(": " + fault.detail))
      continue;  // the detail already contains it
    if (known) {
      if (!fault.place.empty()) text += fmt::format(" ({})", fault.place);
      continue;
    }
    text += fmt::format("{}{}{}{}", text.empty() ? "" : "; ", fault.place,
                        fault.place.empty() || fault.detail.empty() ? "" : ": ", fault.detail);
  }
  return fmt::format("server says {}{}{}", problem.status, text.empty() ? "" : ": ", text);
}

}  // namespace babelring
