#pragma once

#include <string>
#include <vector>

#include "server/api/service.h"
#include "server/http/message.h"
#include "server/http/reply.h"
#include "server/store/ingest.h"

namespace babelring::api {

/// The reporter of an authorized request.
store::ReportSender reporter_of(const http::Request& request);

/// Checks requirements of the store beyond the record schema. Throws Problem 422 record_refused.
void check_records(const std::vector<Record>& records);
/// Tells alert rules and event streams of a committed batch. Called on the writer's thread; does not throw.
void announce_records(Service& service, const store::Batch& batch, const store::IngestResult& result);

/// The problem for a refused report: 403 run_forbidden, 429 too_many_runs, 409 attempt_refused or records_missing, 422
/// rank_refused or sequence_refused.
http::Problem problem_of(store::Refusal::Kind kind, const std::string& detail);
/// The response to a refused batch. 429 carries Retry-After, and records_missing the member `stored`.
http::Response refusal_response(const store::IngestResult& refused, const std::string& request_id);

}  // namespace babelring::api
