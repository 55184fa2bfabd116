#pragma once

#include "cli/doctor/finding.h"
#include "client/server_access.h"

namespace babelring {

/// Checks that the server responds, is ready and accepts the token, and compares its clock with the local clock.
Diagnoses server_findings(const ServerAccess& access);

/// Seconds by which an HTTP date ("Sun, 06 Nov 1994 08:49:37 GMT") is ahead of `now_ms` (Unix time in ms); 0 within the
/// same second. The Error quotes an invalid date.
Result<double> clock_ahead_s(const std::string& date, std::int64_t now_ms);

}  // namespace babelring
