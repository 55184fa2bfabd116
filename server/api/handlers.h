#pragma once

#include <memory>
#include <optional>

#include "server/api/service.h"
#include "server/http/message.h"
#include "server/http/reply.h"

/// The handlers of the routes, each in the file of its resource. They return the response, or throw Problem.
namespace babelring::api {

using http::Request, http::Response;

// admin.cc
Response check_alive(Service& service, const Request& request);
Response check_ready(Service& service, const Request& request);
Response show_version(Service& service, const Request& request);
Response show_openapi(Service& service, const Request& request);
Response show_metrics(Service& service, const Request& request);
Response start_backup(Service& service, const Request& request);
Response show_backup(Service& service, const Request& request);

// series.cc
Response list_metric_keys(Service& service, const Request& request);
Response show_series(Service& service, const Request& request);
Response list_series(Service& service, const Request& request);
Response export_steps(Service& service, const Request& request);

// runs.cc
Response list_runs(Service& service, const Request& request);
Response show_run(Service& service, const Request& request);
/// The response to show_run() if no commit happened since it was made; nothing otherwise. Reads memory only.
std::optional<Response> show_cached_run(const Service& service, const Request& request);

// submit.cc
Response submit_run(Service& service, const Request& request);
Response validate_run(Service& service, const Request& request);
Response list_profiles(Service& service, const Request& request);

// run_actions.cc
Response stop_run(Service& service, const Request& request);
Response resume_run(Service& service, const Request& request);
Response request_checkpoint(Service& service, const Request& request);
Response edit_run(Service& service, const Request& request);
Response delete_run(Service& service, const Request& request);

// artifacts.cc
Response request_trace(Service& service, const Request& request);
Response show_trace_request(Service& service, const Request& request);
Response list_artifacts(Service& service, const Request& request);
Response show_artifact(Service& service, const Request& request);
Response download_artifact(Service& service, const Request& request);

// heartbeat.cc
Response add_heartbeat(Service& service, const Request& request);
Response list_nodes(Service& service, const Request& request);
Response show_node(Service& service, const Request& request);
Response list_ranks(Service& service, const Request& request);

// control.cc
Response list_transitions(Service& service, const Request& request);
Response list_attempts(Service& service, const Request& request);
Response list_ends(Service& service, const Request& request);

// records.cc: responds once the records are stored, from the writer's thread
void ingest_records(Service& service, const std::shared_ptr<const Request>& request, const http::Reply& reply);

// metrics_query.cc
Response query_metrics(Service& service, const Request& request);

// evals.cc
Response list_evals(Service& service, const Request& request);
Response add_eval(Service& service, const Request& request);
Response show_eval(Service& service, const Request& request);
Response compare_runs(Service& service, const Request& request);

// analysis.cc
Response show_verdict(Service& service, const Request& request);
Response show_report(Service& service, const Request& request);
Response show_what_if(Service& service, const Request& request);

// alerts.cc
Response list_alert_rules(Service& service, const Request& request);
Response replace_alert_rules(Service& service, const Request& request);
Response list_alerts(Service& service, const Request& request);
Response acknowledge_alert(Service& service, const Request& request);

// webhooks.cc
Response list_webhooks(Service& service, const Request& request);
Response create_webhook(Service& service, const Request& request);
Response show_webhook(Service& service, const Request& request);
Response edit_webhook(Service& service, const Request& request);
Response delete_webhook(Service& service, const Request& request);
Response test_webhook(Service& service, const Request& request);
Response list_deliveries(Service& service, const Request& request);

// checkpoints.cc
Response list_checkpoints(Service& service, const Request& request);
Response show_checkpoint(Service& service, const Request& request);
Response delete_checkpoint(Service& service, const Request& request);
Response pin_checkpoint(Service& service, const Request& request);
Response unpin_checkpoint(Service& service, const Request& request);
Response download_file(Service& service, const Request& request);
Response download_archive(Service& service, const Request& request);
Response show_sums(Service& service, const Request& request);
Response show_retention(Service& service, const Request& request);
Response replace_retention(Service& service, const Request& request);

// exports.cc
Response begin_export(Service& service, const Request& request);
Response list_exports(Service& service, const Request& request);
Response show_export(Service& service, const Request& request);
Response download_export(Service& service, const Request& request);
Response download_export_file(Service& service, const Request& request);

// translate.cc: responds when the translator has answered
void translate_text(Service& service, const std::shared_ptr<const Request>& request, const http::Reply& reply);

// logs.cc
Response list_logs(Service& service, const Request& request);
Response stream_events(Service& service, const Request& request);

// access.cc
Response list_tokens(Service& service, const Request& request);
Response create_token(Service& service, const Request& request);
Response show_own_token(Service& service, const Request& request);
Response delete_token(Service& service, const Request& request);
Response list_audit(Service& service, const Request& request);
Response export_audit(Service& service, const Request& request);

}  // namespace babelring::api
