#pragma once

#include <string>
#include <vector>

#include "base/failure.h"
#include "client/http_client.h"

namespace babelring {

/// The content of an error response: the members of a problem+json body (RFC 9457), otherwise, as `detail`, where a
/// redirect leads, the title of a page, or the first bytes of the body. All texts are printable.
struct Problem {
  int status = 0;
  std::string code, title, detail;
  /// An invalid member of the request. `place` is its JSON pointer and line: "/config, line 3".
  struct Fault {
    std::string place, detail;
  };
  std::vector<Fault> faults;
};

/// Extracts the problem from an error response.
Problem read_problem(const HttpResponse& answer);

/// True if a retry of the request would fail again: 4xx except 408 and 429.
bool is_final(int status);

/// Formats a problem as one line: "server says 404: no run 'r_…'".
std::string describe(const Problem& problem);

/// An error response of the server. The message is that of describe().
class ServerRefusal : public Failure {
 public:
  explicit ServerRefusal(Problem problem) : Failure(describe(problem)), problem_(std::move(problem)) {}
  const Problem& problem() const { return problem_; }

 private:
  Problem problem_;
};

}  // namespace babelring
