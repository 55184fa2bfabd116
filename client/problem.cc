#include "client/problem.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "nmt/base/json.h"
#include "nmt/base/log.h"

namespace babelring {
namespace {

constexpr std::size_t quoted_bytes = 300;   // of a body that is no problem+json
constexpr std::size_t member_bytes = 1000;  // of each text of one that is
constexpr std::size_t most_errors_told = 3;

std::string text_of(const json::object& object, std::string_view name) {
  const json::value* member = object.if_contains(name);
  if (member == nullptr || !member->is_string()) return "";
  return printable(std::string_view(member->get_string()).substr(0, member_bytes));
}

std::vector<std::string> errors_of(const json::object& problem) {
  std::vector<std::string> errors;
  const json::value* member = problem.if_contains("errors");
  if (member == nullptr || !member->is_array()) return errors;
  for (const json::value& entry : member->get_array()) {
    if (!entry.is_object()) continue;
    const std::string pointer = text_of(entry.get_object(), "pointer"), detail = text_of(entry.get_object(), "detail");
    errors.push_back(fmt::format("{}{}{}", pointer, pointer.empty() || detail.empty() ? "" : ": ", detail));
  }
  return errors;
}

}  // namespace

Problem read_problem(const HttpAnswer& answer) {
  Problem problem{.status = answer.status, .code = {}, .title = {}, .detail = {}, .errors = {}};
  if (const auto body = parse_json(answer.body); body.ok() && body->is_object()) {
    const json::object& object = body->get_object();
    problem.code = text_of(object, "code");
    problem.title = text_of(object, "title");
    problem.detail = text_of(object, "detail");
    problem.errors = errors_of(object);
  }
  if (problem.title.empty() && problem.detail.empty()) {
    problem.detail = printable(std::string_view(answer.body).substr(0, quoted_bytes));
  }
  return problem;
}

std::string describe(const Problem& problem) {
  std::string text = problem.detail.empty() ? problem.title : problem.detail;
  std::size_t told = 0;
  for (const std::string& error : problem.errors) {
    if (told == most_errors_told) break;
    if (text.find(error) != std::string::npos) continue;
    text += (text.empty() ? "" : "; ") + error;
    ++told;
  }
  return fmt::format("server says {}{}{}", problem.status, text.empty() ? "" : ": ", text);
}

}  // namespace babelring
