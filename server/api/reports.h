#pragma once

#include <string>

#include "server/http/message.h"
#include "server/http/problem.h"
#include "server/store/reporter.h"

namespace babelring::api {

/// Who reports by this request, which the gate has let in.
store::Reporter reporter_of(const http::Request& request);

/// A report that is not taken, as an answer: 403 run_forbidden, 429 too_many_runs, 409 attempt_refused, 422
/// rank_refused or sequence_refused.
http::Problem problem_of(store::Refusal::Kind kind, const std::string& detail);
/// The same as a response; 429 carries Retry-After.
http::Response refusal_response(store::Refusal::Kind kind, const std::string& detail, const std::string& request_id);

}  // namespace babelring::api
