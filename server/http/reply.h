#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/failure.h"
#include "server/http/message.h"

namespace babelring::http {

/// An error that a handler throws and the dispatcher turns into application/problem+json (RFC 9457). `code` is a stable
/// identifier for programs, e.g. run_unknown. `detail` is one line for people.
class Problem : public Failure {
 public:
  /// An error in one part of the request body: a JSON pointer and a one-line description.
  struct Fault {
    std::string pointer, detail;
    std::int64_t line = 0, column = 0;  // from 1, within a multi-line string of the body; 0: not applicable
  };
  Problem(int status, std::string code, const std::string& detail, std::vector<Fault> faults = {})
      : Failure(detail), status_(status), code_(std::move(code)), faults_(std::move(faults)) {}
  int status() const { return status_; }
  const std::string& code() const { return code_; }
  const std::vector<Fault>& faults() const { return faults_; }
  const std::vector<std::pair<std::string, std::string>>& headers() const { return headers_; }

  const std::vector<std::pair<std::string, std::int64_t>>& members() const { return members_; }

  /// Adds a member to the body, for programs.
  Problem&& with_member(std::string name, std::int64_t value) && {
    members_.emplace_back(std::move(name), value);
    return std::move(*this);
  }
  /// Adds a header to the response.
  Problem&& with(std::string name, std::string value) && {
    headers_.emplace_back(std::move(name), std::move(value));
    return std::move(*this);
  }

 private:
  int status_;
  std::string code_;
  std::vector<Fault> faults_;
  std::vector<std::pair<std::string, std::string>> headers_;
  std::vector<std::pair<std::string, std::int64_t>> members_;
};

/// The problem as a response. `request_id` becomes `instance`. A 503 response carries Retry-After.
Response problem_response(const Problem& problem, std::string_view request_id);

struct Response;

/// Delivers the response to one request. Copies refer to the same request: the first call delivers, from any thread,
/// and later calls do nothing. A call that throws has not delivered, and may be repeated.
class Reply {
 public:
  using Deliver = std::function<void(Response)>;

  explicit Reply(Deliver deliver) : Reply(std::move(deliver), nullptr) {}
  template <class F>
    requires(!std::same_as<std::remove_cvref_t<F>, Reply> && std::invocable<F&, Response>)
  Reply(F deliver) : Reply(Deliver(std::move(deliver)), nullptr) {}  // NOLINT: a lambda is a reply

  /// A reply that cannot get lost: if its last copy is destroyed without a call, the result of `lost` is delivered.
  static Reply required(Deliver deliver, std::function<Response()> lost) {
    return {std::move(deliver), std::move(lost)};
  }

  void operator()(Response response) const;

 private:
  Reply(Deliver deliver, std::function<Response()> lost);
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace babelring::http
