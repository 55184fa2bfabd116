#pragma once

#include <cstdint>
#include <string>

#include "base/clock.h"
#include "server/http/access_log.h"
#include "server/http/message.h"
#include "server/http/router.h"

namespace babelring::http {

/// A request's line in the access log: written on destruction, when the answer was sent or the client has left.
class AccessLine {
 public:
  /// `log` null: there is no line. `handled_ms`: from the request's last byte to its answer. `sent`: what the
  /// connection has sent in all; it and the request must outlive this. `route` null: none matched.
  AccessLine(AccessLog* log, const Request& request, const Route* route, const Response& response, double handled_ms,
             const std::int64_t& sent);
  ~AccessLine();
  AccessLine(const AccessLine&) = delete;
  AccessLine& operator=(const AccessLine&) = delete;

 private:
  AccessLog* log_;  // null: not wanted
  const Request& request_;
  const Route* route_;
  const int status_;
  const double work_ms_, wait_ms_;
  const std::int64_t& sent_;
  const std::int64_t sent_before_;
  Stopwatch sending_;
};

/// The line, with the status 499, of a request whose client left before there was an answer.
void note_client_left(AccessLog* log, const Request& request, const Route* route, double handled_ms);

/// The line of a client that is refused before its request is understood.
void note_malformed(AccessLog* log, const std::string& address, int status);

}  // namespace babelring::http
