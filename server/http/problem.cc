#include "server/http/problem.h"

#include "base/json.h"
#include "base/log.h"

namespace babelring::http {

Response problem_response(const Problem& problem, std::string_view request_id) {
  std::string type = problem.code();
  for (char& c : type) {
    if (c == '_') c = '-';
  }
  json::object body = {{"type", "urn:babelring:problem:" + type},
                       {"title", reason_of(problem.status())},
                       {"status", problem.status()},
                       {"detail", printable(problem.what())},
                       {"code", problem.code()},
                       {"instance", fmt::format("urn:request:{}", request_id)}};
  for (const auto& [name, value] : problem.members()) body[name] = value;
  if (!problem.faults().empty()) {
    json::array errors;
    for (const auto& fault : problem.faults()) {
      json::object error = {{"pointer", printable(fault.pointer)}, {"detail", printable(fault.detail)}};
      if (fault.line > 0) error["line"] = fault.line;
      if (fault.column > 0) error["column"] = fault.column;
      errors.push_back(std::move(error));
    }
    body["errors"] = std::move(errors);
  }
  Response response = text_response(problem.status(), "application/problem+json", to_text(body));
  response.set("Cache-Control", "no-store");
  if (problem.status() == 503) response.set("Retry-After", "1");
  for (const auto& [name, value] : problem.headers()) response.set(name, value);
  return response;
}

}  // namespace babelring::http
