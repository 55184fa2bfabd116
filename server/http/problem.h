#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nmt/base/failure.h"
#include "server/http/message.h"

namespace babelring::http {

/// An answer other than success, thrown by handlers and turned into application/problem+json (RFC 9457) by the
/// dispatcher. `code` is for programs (run_unknown), `detail` one line for a person.
class Problem : public Failure {
 public:
  /// What is wrong with one part of the body: its JSON pointer, and one line.
  struct Fault {
    std::string pointer, detail;
    std::int64_t line = 0, column = 0;  // in a text within the body, from 1; 0 without one
  };
  Problem(int status, std::string code, const std::string& detail, std::vector<Fault> faults = {})
      : Failure(detail), status_(status), code_(std::move(code)), faults_(std::move(faults)) {}
  int status() const { return status_; }
  const std::string& code() const { return code_; }
  const std::vector<Fault>& faults() const { return faults_; }

 private:
  int status_;
  std::string code_;
  std::vector<Fault> faults_;
};

/// The problem as a response. `request_id` becomes `instance`. 503 carries Retry-After.
Response problem_response(const Problem& problem, std::string_view request_id);

}  // namespace babelring::http
