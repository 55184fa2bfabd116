#include "server/http/reply.h"

#include <spdlog/spdlog.h>

#include <atomic>
#include <utility>

#include "base/json.h"
#include "base/log.h"
#include "server/http/message.h"

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

struct Reply::State {
  State(Deliver to, std::function<Response()> otherwise) : deliver(std::move(to)), lost(std::move(otherwise)) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    if (delivered || !lost) return;
    try {
      deliver(lost());
    } catch (const std::exception& failure) {
      spdlog::error("a lost response could not be replaced: {}", failure.what());
    }
  }

  Deliver deliver;
  std::function<Response()> lost;
  std::atomic<bool> delivered = false;
};

Reply::Reply(Deliver deliver, std::function<Response()> lost)
    : state_(std::make_shared<State>(std::move(deliver), std::move(lost))) {}

void Reply::operator()(Response response) const {
  if (state_->delivered.exchange(true)) return;
  try {
    state_->deliver(std::move(response));
  } catch (...) {
    state_->delivered = false;
    throw;
  }
}

}  // namespace babelring::http
