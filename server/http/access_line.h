#pragma once

#include <cstdint>
#include <string>

#include "base/clock.h"
#include "server/http/access_log.h"
#include "server/http/message.h"
#include "server/http/router.h"

namespace babelring::http {

/// A request's line in the access log. Written on destruction: after the response was sent or the client has
/// disconnected.
class AccessLine {
 public:
  /// `log`: null writes no line. `route`: null if none matched. `handled_ms`: time from the request's last byte to its
  /// response. `sent`: total bytes sent on the connection. References must outlive this object.
  AccessLine(AccessLog* log, const Request& request, const Route* route, const Response& response, double handled_ms,
             const std::int64_t& sent);
  ~AccessLine();
  AccessLine(const AccessLine&) = delete;
  AccessLine& operator=(const AccessLine&) = delete;

 private:
  AccessLog* log_;  // null: write no line
  const Request& request_;
  const Route* route_;
  const int status_;
  const double work_ms_, wait_ms_;
  const std::int64_t& sent_;
  const std::int64_t sent_before_;
  Stopwatch sending_;
};

/// Logs a request, with status 499, of a client that disconnected before the response.
void log_client_left(AccessLog* log, const Request& request, const Route* route, double handled_ms);

/// Logs a client that is refused before its request could be parsed.
void log_malformed(AccessLog* log, const std::string& address, int status);

}  // namespace babelring::http
