#pragma once

#include <string>
#include <vector>

#include "base/failure.h"
#include "client/http_client.h"

namespace babelring {

/// What a server's answer other than success says: of a problem+json (RFC 9457) its members, of anything else the first
/// bytes of the body as `detail`. All printable.
struct Problem {
  int status = 0;
  std::string code, title, detail;
  /// What is wrong with one member, and where: "/config, line 3".
  struct Fault {
    std::string place, detail;
  };
  std::vector<Fault> faults;
};

Problem read_problem(const HttpAnswer& answer);

/// Whether the same request would be refused again: 4xx but 408 and 429.
bool is_final(int status);

/// "server says 404: no run 'r_…'", in one line.
std::string describe(const Problem& problem);

/// A server refused. Its message is describe()'s.
class ServerRefusal : public Failure {
 public:
  explicit ServerRefusal(Problem problem) : Failure(describe(problem)), problem_(std::move(problem)) {}
  const Problem& problem() const { return problem_; }

 private:
  Problem problem_;
};

}  // namespace babelring
