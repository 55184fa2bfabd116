#pragma once

#include "cli/doctor/finding.h"
#include "client/server_access.h"

namespace babelring {

/// Whether the server answers, is well, takes the token, and how far its clock is from ours.
Diagnoses server_findings(const ServerAccess& access);

/// By how many seconds a clock that shows `date` (as in HTTP: "Sun, 06 Nov 1994 08:49:37 GMT") is ahead of `now_ms`,
/// Unix time; 0 within that second. The Error quotes what is not a date.
Result<double> clock_ahead_s(const std::string& date, std::int64_t now_ms);

}  // namespace babelring
