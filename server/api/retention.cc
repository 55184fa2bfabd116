#include "server/artifacts/retention_policy.h"

#include <algorithm>

#include "server/access/audited.h"
#include "server/api/body.h"
#include "server/api/conditional.h"
#include "server/api/handlers.h"
#include "server/api/responses.h"
#include "server/store/checkpoints.h"

namespace babelring::api {
namespace {

/// The member that a complaint begins with: "keep_best.count: expected …".
std::vector<http::Problem::Fault> faults_of_policy(const std::string& complaint) {
  const auto colon = complaint.find(": ");
  if (colon == std::string::npos || complaint.starts_with("expected ")) return {};  // of the whole body
  std::string pointer = "/" + complaint.substr(0, colon);
  std::replace(pointer.begin(), pointer.end(), '.', '/');
  return {{.pointer = std::move(pointer), .detail = complaint.substr(colon + 2)}};
}

json::object current_policy(store::Reader& reader, const store::RunRow& run) {
  const std::string text = store::retention_of(reader, run.number);
  return text.empty() ? to_json(artifacts::RetentionPolicy{}) : parse_json(text).value().as_object();
}

}  // namespace

http::Response show_retention(Service& service, const http::Request& request) {
  auto reader = service.store.reader(store::Store::For::own);
  return resource_response(request, current_policy(*reader, require_run(*reader, request)));
}

http::Response replace_retention(Service& service, const http::Request& request) {
  const auto one_at_a_time = service.edits.lock(request.parameter("run"));
  std::optional<store::RunRow> run;
  {
    auto reader = service.store.reader(store::Store::For::own);
    run = require_run(*reader, request);
    require_match(request, state_digest(current_policy(*reader, *run)));
  }
  const auto policy = artifacts::policy_from_json(parse_body(request));
  if (!policy) throw http::Problem(422, "policy_refused", policy.error(), faults_of_policy(policy.error()));
  const json::object value = to_json(*policy);
  access::audited_write(service.audit, request, 200, [&](store::Database& database) {
    store::set_retention(database, run->number, to_text(value), policy->max_log_bytes);
  });
  service.retention.wake();
  return json_response(value);
}

}  // namespace babelring::api
