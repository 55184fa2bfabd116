#include "server/api/reports.h"

#include "server/http/access.h"

namespace babelring::api {

store::ReportSender reporter_of(const http::Request& request) {
  using Reach = store::ReportSender::Reach;
  if (!request.caller) return {};
  const http::Caller& caller = *request.caller;
  store::ReportSender reporter{.reach = Reach::begun, .token = caller.token, .prefix = caller.run_prefix};
  if (caller.scope != http::Scope::ingest) {  // who may steer all runs
    reporter.reach = Reach::every_run;
  } else if (!caller.run.empty()) {
    reporter.reach = Reach::one_run;
  } else if (!caller.run_prefix.empty()) {
    reporter.reach = Reach::prefix;
  }
  return reporter;
}

http::Problem problem_of(store::Refusal::Kind kind, const std::string& detail) {
  using Kind = store::Refusal::Kind;
  switch (kind) {
    case Kind::not_its_run:
      break;
    case Kind::too_many_runs:
      return {429, "too_many_runs", detail};
    case Kind::attempt_refused:
      return {409, "attempt_refused", detail};
    case Kind::rank_refused:
      return {422, "rank_refused", detail};
    case Kind::sequence_refused:
      return {422, "sequence_refused", detail};
    case Kind::records_missing:
      return {409, "records_missing", detail};
  }
  return {403, "run_forbidden", detail};
}

http::Response refusal_response(const store::IngestResult& refused, const std::string& request_id) {
  using Kind = store::Refusal::Kind;
  const http::Problem problem = refused.refusal == Kind::records_missing
                                    ? problem_of(refused.refusal, refused.detail).with_member("stored", refused.stored)
                                    : problem_of(refused.refusal, refused.detail);
  http::Response response = http::problem_response(problem, request_id);
  if (refused.refusal == Kind::too_many_runs) response.set("Retry-After", "10");
  return response;
}

}  // namespace babelring::api
