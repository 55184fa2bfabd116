#include <algorithm>

#include "base/clock.h"
#include "server/access/audited.h"
#include "server/api/body.h"
#include "server/api/control.h"
#include "server/api/handlers.h"
#include "server/api/responses.h"
#include "server/artifacts/lab_files.h"
#include "server/http/download.h"
#include "server/store/checkpoints.h"
#include "server/store/control.h"

namespace babelring::api {
namespace {

constexpr std::int64_t max_trace_updates = 20, default_trace_updates = 3;

/// The newest heartbeat of the run's rank 0, which alone gets the command. Nothing if there is none.
std::optional<launch::ReceivedHeartbeat> beat_of_rank_0(Service& service, const store::RunRow& run) {
  const auto beats = control_of(service).heartbeats().of(run.id, run.attempt);
  if (beats.empty() || beats.front().beat.rank != 0) return std::nullopt;
  return beats.front();
}

/// The number of the newest executed request. Throws Problem 409 if rank 0 cannot get the command.
std::int64_t require_rank_0(Service& service, const store::RunRow& run) {
  const auto beat = beat_of_rank_0(service, run);
  if (!beat || control_of(service).heartbeats().age_s(*beat) > fresh_s) {
    throw http::Problem(
        409, "unreachable",
        fmt::format("run {} cannot be traced: rank 0 has sent no heartbeat for {:g} s", run.id, fresh_s));
  }
  if (!beat->beat.trace_done) {
    throw http::Problem(409, "unreachable",
                        fmt::format("run {} cannot be traced: its worker is of an older version, which takes no "
                                    "requests for traces",
                                    run.id));
  }
  return *beat->beat.trace_done;
}

store::TraceRequestRow read_trace_request(const http::Request& request) {
  Body body(request, true);
  const std::int64_t updates = body.integer("updates", -max_number, max_number).value_or(default_trace_updates);
  const bool ops = body.flag("ops").value_or(true);
  body.finish();
  if (updates < 1 || updates > max_trace_updates) {
    throw http::Problem(422, "trace_refused",
                        fmt::format("updates: expected a number from 1 to {}, found {}", max_trace_updates, updates));
  }
  return {.updates = updates, .ops = ops};
}

json::object request_item(const store::RunRow& run, const store::TraceRequestRow& request, bool under_way) {
  return {{"run", run.id},      {"attempt", run.attempt}, {"number", request.number}, {"updates", request.updates},
          {"ops", request.ops}, {"under_way", under_way}};
}

}  // namespace

http::Response request_trace(Service& service, const http::Request& request) {
  return service.idempotency.once(request, [&] {
    store::TraceRequestRow wanted = read_trace_request(request);
    const store::RunRow run = [&] {
      auto reader = service.store.reader();
      return require_run(*reader, request);
    }();
    if (run.state != store::RunState::running) {
      throw http::Problem(409, "state_conflict",
                          fmt::format("run {} is {}: it cannot be traced", run.id, name_of(run.state)));
    }
    const std::int64_t done = require_rank_0(service, run);
    wanted.number = access::audited_write(service.audit, request, 202, [&](store::Database& database) {
      const auto number = store::request_trace(database, run.number, wanted, done);
      if (number) return *number;
      throw http::Problem(409, "trace_under_way",
                          fmt::format("run {} is being traced; ask again when that trace has arrived", run.id));
    });
    http::Response response = json_response(request_item(run, wanted, true));
    response.status = 202;
    return response;
  });
}

http::Response show_trace_request(Service& service, const http::Request& request) {
  auto reader = service.store.reader();
  const store::RunRow run = require_run(*reader, request);
  const store::TraceRequestRow newest = store::find_trace_request(*reader, run.number);
  const auto beat = beat_of_rank_0(service, run);
  const std::int64_t done = beat ? beat->beat.trace_done.value_or(0) : 0;
  return json_response(request_item(run, newest, newest.number > done && !store::is_terminal(run.state)));
}

namespace {

std::string kind_query(const http::Request& request) {
  const std::string kind = request.query_value("kind").value_or("");
  const auto& kinds = artifact_kinds;
  if (kind.empty() || std::find(kinds.begin(), kinds.end(), kind) != kinds.end()) return kind;
  throw http::Problem(400, "bad_parameter", fmt::format("kind: expected {}, found '{}'", fmt::join(kinds, ", "), kind));
}

}  // namespace

json::object artifact_item(const store::ArtifactRow& artifact) {
  return {{"id", artifact.id},           {"run", artifact.run},
          {"attempt", artifact.attempt}, {"rank", artifact.rank},
          {"update", artifact.step},     {"kind", artifact.kind},
          {"name", artifact.name},       {"created_at", format_rfc3339(artifact.created_ms)},
          {"removed", artifact.removed}, {"bytes", artifact.size},
          {"sha256", artifact.sha256},   {"content_bytes", artifact.content_bytes}};
}

http::Response list_artifacts(Service& service, const http::Request& request) {
  const std::int64_t limit = page_limit(request);
  store::ArtifactFilter filter;
  filter.kind = kind_query(request);
  filter.removed = flag_query(request, "removed").value_or(false);
  filter.before = read_cursor(request);
  filter.limit = limit + 1;  // one more shows whether there is a next page
  auto reader = service.store.reader();
  const store::RunRow run = require_run(*reader, request);
  auto artifacts = store::list_artifacts(*reader, run.number, filter);
  auto next =
      end_page(artifacts, limit, [](const store::ArtifactRow& last) { return make_cursor(last.step, last.number); });
  json::array items;
  for (const store::ArtifactRow& artifact : artifacts) items.push_back(artifact_item(artifact));
  return page_response(request, std::move(items), std::move(next));
}

http::Response show_artifact(Service& service, const http::Request& request) {
  const store::ArtifactRow artifact = artifacts::require_artifact(service.store, request.parameter("artifact"));
  json::object item = artifact_item(artifact);
  auto reader = service.store.reader();
  const std::string content = store::content_of_artifact(*reader, artifact.id);
  item["content"] = content.empty() ? json::value(nullptr) : parse_json(content).value();
  return resource_response(request, item);
}

http::Response download_artifact(Service& service, const http::Request& request) {
  const store::ArtifactRow artifact = artifacts::require_artifact(service.store, request.parameter("artifact"));
  FileDescriptor opened = artifacts::open_artifact(service.checkpoint_roots, artifact);
  http::Download download{std::move(opened), artifact.size, artifact.name, artifact.sha256};
  return service.downloads.count(request, artifact.id, http::download_response(request, std::move(download)));
}

}  // namespace babelring::api
