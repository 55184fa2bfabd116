#include "worker/delivery.h"

#include <fmt/format.h>

#include "client/problem.h"

namespace babelring {
namespace {

bool concerns_token(int status) {
  return status == 401 || status == 403;
}

}  // namespace

Delivery delivery_of(int status) {
  if (status >= 200 && status < 300) return Delivery::stored;
  if (concerns_token(status)) return Delivery::barred;
  const bool about_records = status == 400 || status == 409 || status == 413 || status == 422;
  return about_records ? Delivery::refused : Delivery::again;
}

std::string advice(int status) {
  if (concerns_token(status)) {
    return "; give a token whose scope is ingest by --token-file FILE or BABELRING_TOKEN and start again with the same "
           "--run-dir to have them sent";
  }
  return "";
}

std::string explain(const HttpResponse& answer) {
  const Problem problem = read_problem(answer);
  const char* joint = problem.title.empty() || problem.detail.empty() ? "" : ": ";
  return fmt::format("{} {}{}{}", problem.status, problem.title, joint, problem.detail);
}

}  // namespace babelring
