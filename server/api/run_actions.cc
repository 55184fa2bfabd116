#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "server/access/audited.h"
#include "server/api/control.h"
#include "server/api/handlers.h"
#include "server/api/responses.h"
#include "server/artifacts/checkpoint_files.h"
#include "server/http/fields.h"

namespace babelring::api {
namespace {

store::RunRow find(Service& service, const http::Request& request) {
  auto reader = service.store.reader();
  return require_run(*reader, request);
}

[[noreturn]] void refuse_state(const store::RunRow& run, const char* what) {
  throw http::Problem(409, "state_conflict",
                      fmt::format("run {} is {}: it cannot be {}", run.id, name_of(run.state), what));
}

/// A run that was started by hand receives commands only as responses to its heartbeats.
void require_reachable(Service& service, const store::RunRow& run) {
  if (!run.is_external() || store::is_terminal(run.state)) return;
  launch::Heartbeats& heartbeats = control_of(service).heartbeats();
  const auto beats = heartbeats.of(run.id, run.attempt);
  const bool reachable =
      std::any_of(beats.begin(), beats.end(), [&](const auto& beat) { return heartbeats.age_s(beat) < fresh_s; });
  if (!reachable) {
    throw http::Problem(
        409, "unreachable",
        fmt::format("run {} was started by hand and its ranks send no heartbeats; send mpirun SIGUSR1", run.id));
  }
}

http::Response changed(Service& service, const std::string& run) {
  publish_run(service, run);
  control_of(service).wake();
  return run_response(service, run, 202);
}

/// Converts a merge patch (RFC 7396) to a body of application/json: the resulting `labels`, and empty values for
/// removed members. Throws Problem 400 for members that cannot be removed.
json::object edit_of_patch(json::object patch, const store::RunRow& run) {
  for (auto& [name, value] : patch) {
    if (name == "labels" && value.is_object()) {
      json::object labels = parse_json(run.labels).value().as_object();
      for (auto& [label, text] : value.get_object()) {
        if (text.is_null()) {
          labels.erase(label);
        } else {
          labels[label] = std::move(text);
        }
      }
      value = std::move(labels);
    } else if (value.is_null()) {
      if (name != "labels" && name != "notes") Body::refuse(name, "cannot be removed");
      value = name == "notes" ? json::value("") : json::value(json::object());
    }
  }
  return patch;
}

Body edit_body(const http::Request& request, const store::RunRow& run) {
  if (http::media_type_of(request.header("content-type")) != http::merge_patch_type) return Body(request);
  json::value patch = parse_body(request);
  return patch.is_object() ? Body(edit_of_patch(std::move(patch.get_object()), run), "") : Body(request);
}

}  // namespace

http::Response stop_run(Service& service, const http::Request& request) {
  const store::RunRow run = find(service, request);
  Body body(request, true);
  store::StopMode mode = store::StopMode::checkpoint;
  if (const auto name = body.text("mode", 20)) store::from_name(*name, mode);
  if (mode == store::StopMode::none) Body::refuse("mode", "expected checkpoint or now");
  const std::int64_t grace_s = body.integer("grace_s", 0, 600).value_or(300);
  body.finish();
  require_reachable(service, run);
  const auto state = access::audited_write(service.audit, request, 202, [&](store::Database& database) {
    return store::request_stop(database, run.id, mode, grace_s, request.actor, wall_time_ms());
  });
  if (!state) refuse_state(run, "stopped");
  return changed(service, run.id);
}

http::Response resume_run(Service& service, const http::Request& request) {
  return service.idempotency.once(request, [&] {
    const store::RunRow run = find(service, request);
    const auto profile = control_of(service).find_profile(run.profile);
    if (profile == nullptr) {
      throw http::Problem(409, "not_managed",
                          fmt::format("run {} was started by hand, or its profile is gone", run.id));
    }
    if (run.deleted_ms) {
      throw http::Problem(409, "state_conflict",
                          fmt::format("run {} is deleted; restore it first: PATCH {{\"deleted\": false}}", run.id));
    }
    Body body(request, true);
    store::Resume resume{
        .run = run.id, .actor = request.actor, .world_size = body.integer("world_size", 1, profile->max_ranks)};
    const std::string checkpoint = body.text("checkpoint", 28).value_or("latest");
    body.finish();
    if (checkpoint != "latest") {
      const store::CheckpointRow row = artifacts::require_loadable(service.store, service.checkpoint_roots, checkpoint);
      if (row.run != run.id) Body::refuse("checkpoint", "belongs to another run; submit a run with resume_from");
      resume.folder = row.folder;
      resume.step = row.step;
    }
    const auto state = access::audited_write(service.audit, request, 202, [&](store::Database& database) {
      return store::request_resume(database, resume, wall_time_ms());
    });
    if (!state) refuse_state(run, "resumed");
    return changed(service, run.id);
  });
}

http::Response request_checkpoint(Service& service, const http::Request& request) {
  return service.idempotency.once(request, [&] {
    const store::RunRow run = find(service, request);
    if (run.emulated) {
      throw http::Problem(409, "run_emulated",
                          fmt::format("run {} is emulated: it has no weights, so it writes no checkpoints", run.id));
    }
    if (run.state != store::RunState::running) refuse_state(run, "asked for a checkpoint");
    require_reachable(service, run);
    if (const auto verdict = service.checkpoint_requests.take(run.id, SteadyClock::now()); !verdict.allowed) {
      const http::Problem problem(429, "too_soon", "a checkpoint was requested within the last 10 s");
      return http::problem_response(problem, request.id)
          .set("Retry-After", fmt::format("{:.0f}", std::ceil(verdict.wait_seconds)));
    }
    const std::int64_t number = access::audited_write(service.audit, request, 202, [&](store::Database& database) {
      return store::request_checkpoint(database, run.id);
    });
    http::Response response =
        json_response(json::object{{"run", run.id}, {"attempt", run.attempt}, {"number", number}});
    response.status = 202;
    return response;
  });
}

http::Response edit_run(Service& service, const http::Request& request) {
  const auto one_at_a_time = service.edits.lock(request.parameter("run"));
  const store::RunRow run = find(service, request);
  require_run_match(request, run);
  Body body = edit_body(request, run);
  store::RunEdit edit{.name = body.name_text("name", 200),
                      .labels = read_labels(body),
                      .notes = body.text("notes", 64 << 10),
                      .archived = body.flag("archived"),
                      .deleted = body.flag("deleted"),
                      .max_restarts = body.integer("max_restarts", 0, 1000)};
  body.finish();
  if (edit.name && edit.name->empty()) Body::refuse("name", "expected a non-empty string");
  if (edit.deleted && *edit.deleted)
    Body::refuse("deleted", "expected false, which restores the run; use DELETE to delete it");
  access::audited_write(service.audit, request, 200,
                        [&](store::Database& database) { store::edit_run(database, run.id, edit, wall_time_ms()); });
  publish_run(service, run.id);
  return run_response(service, run.id);
}

http::Response delete_run(Service& service, const http::Request& request) {
  const auto one_at_a_time = service.edits.lock(request.parameter("run"));
  const store::RunRow run = find(service, request);
  require_run_match(request, run);
  const std::string checkpoints = request.query_value("checkpoints").value_or("keep");
  if (checkpoints != "keep" && checkpoints != "delete") {
    throw http::Problem(400, "bad_parameter", "checkpoints: expected keep or delete");
  }
  const bool stale = run.is_external() && wall_time_ms() - run.updated_ms > 60'000;
  if (!store::is_terminal(run.state) && run.state != store::RunState::lost && !stale) {
    throw http::Problem(409, "run_active", fmt::format("run {} is {}; stop it first", run.id, name_of(run.state)));
  }
  access::audited_write(service.audit, request, 200, [&](store::Database& database) {
    store::delete_run(database, run.id, checkpoints == "delete", wall_time_ms());
  });
  service.tokens.remove_run_tokens(run.id);
  publish_run(service, run.id);
  return run_response(service, run.id);
}

}  // namespace babelring::api
