#pragma once

#include <string>
#include <string_view>

#include "nmt/base/failure.h"
#include "server/http/message.h"

namespace babelring::http {

/// An answer other than success, thrown by handlers and turned into application/problem+json (RFC 9457) by the
/// dispatcher. `code` is for programs (run_unknown), `detail` one line for a person.
class Problem : public Failure {
 public:
  Problem(int status, std::string code, const std::string& detail)
      : Failure(detail), status_(status), code_(std::move(code)) {}
  int status() const { return status_; }
  const std::string& code() const { return code_; }

 private:
  int status_;
  std::string code_;
};

/// The problem as a response. `request_id` becomes `instance`. 503 carries Retry-After.
Response problem_response(const Problem& problem, std::string_view request_id);

}  // namespace babelring::http
