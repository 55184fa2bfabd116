#pragma once

#include <string>

#include "server/http/message.h"
#include "server/http/problem.h"
#include "server/store/admission.h"

namespace babelring::api {

/// The reporter of an authorized request.
store::ReportSender reporter_of(const http::Request& request);

/// The problem for a refused report: 403 run_forbidden, 429 too_many_runs, 409 attempt_refused, 422
/// rank_refused or sequence_refused.
http::Problem problem_of(store::Refusal::Kind kind, const std::string& detail);
/// The same as a response; 429 carries Retry-After.
http::Response refusal_response(store::Refusal::Kind kind, const std::string& detail, const std::string& request_id);

}  // namespace babelring::api
