#include "base/clock.h"
#include "base/names.h"
#include "base/records/records.h"
#include "server/access/audited.h"
#include "server/api/control.h"
#include "server/api/handlers.h"
#include "server/api/responses.h"
#include "server/artifacts/checkpoint_files.h"
#include "server/launch/config_check.h"
#include "server/verdict/verdict_input.h"

namespace babelring::api {
namespace {

constexpr std::size_t max_config_bytes = std::size_t{1} << 20;
constexpr std::size_t max_run_name_bytes = 200, max_notes_bytes = 64 << 10;
constexpr std::int64_t max_queued = 1000;

/// A parsed and checked request for a new run.
struct Submission {
  std::shared_ptr<const launch::Profile> profile;
  launch::CheckedConfig config;
  store::NewRun run;
};

std::string read_config_text(Service& service, Body& body) {
  const auto text = body.text("config", max_config_bytes);
  const auto reference = body.text("config_ref", 28);
  if (text.has_value() == reference.has_value()) {
    Body::refuse("config", "expected either config (YAML) or config_ref (the id of a run)");
  }
  if (text) return *text;
  auto reader = service.store.reader();
  const auto run = valid_id(*reference, 'r') ? store::find_run(*reader, *reference) : std::nullopt;
  if (!run) Body::refuse("config_ref", fmt::format("no run '{}'", *reference));
  return run->config;
}

std::shared_ptr<const launch::Profile> read_profile(launch::ControlPlane& control, Body& body) {
  const std::string name = body.text("profile", 64).value_or("mpirun-local");
  if (name == "external") Body::refuse("profile", "runs of profile external are started by hand: mpirun … worker");
  auto profile = control.find_profile(name);
  if (profile == nullptr)
    Body::refuse("profile", fmt::format("no profile '{}'; GET /api/v1/profiles lists them", name));
  return profile;
}

void check_faults(const launch::CheckedConfig& config) {
  if (config.faults.empty()) return;
  std::vector<http::Problem::Fault> faults;
  for (const launch::ConfigFault& fault : config.faults) {
    faults.push_back({.pointer = fault.pointer, .detail = fault.detail, .line = fault.line, .column = fault.column});
  }
  throw http::Problem(422, "config_invalid", config.faults.front().detail, std::move(faults));
}

Submission read_submission(Service& service, const http::Request& request) {
  launch::ControlPlane& control = control_of(service);
  Body body(request);
  Submission submission;
  submission.profile = read_profile(control, body);
  const std::string yaml = read_config_text(service, body);
  submission.run.name = body.name_text("name", max_run_name_bytes).value_or("");
  submission.run.world_size = body.integer("world_size", 1, submission.profile->max_ranks).value_or(1);
  submission.run.max_restarts = body.integer("max_restarts", 0, 1000).value_or(3);
  submission.run.labels = read_labels(body).value_or("{}");
  submission.run.notes = body.text("notes", max_notes_bytes).value_or("");
  if (const auto checkpoint = body.text("resume_from", 28)) {
    const store::CheckpointRow row = artifacts::require_loadable(service.store, service.checkpoint_roots, *checkpoint);
    submission.run.resume_folder = row.folder;
    submission.run.resume_step = row.step;
  }
  body.finish();
  try {
    submission.config = launch::check_config(
        *submission.profile, yaml, submission.run.name, submission.run.world_size,
        {.time = service.config_check_time, .abandoned = [&request] { return request.abandoned(); }});
  } catch (const launch::CheckLate& late) {
    throw http::Problem(503, "late", fmt::format("configuration not checked in time: {}; try again", late.what()));
  }
  check_faults(submission.config);
  submission.run.id = make_id('r');
  submission.run.name = submission.config.name;
  submission.run.profile = submission.profile->name;
  submission.run.folder = (std::filesystem::path(submission.profile->folder) / submission.run.id).string();
  submission.run.config = submission.config.yaml;
  submission.run.actor = request.actor;
  return submission;
}

void require_space(Service& service) {
  if (!service.store.health().disk) throw http::Problem(507, "disk_full", "too little disk space to start a run");
  auto reader = service.store.reader();
  if (store::count_queued(*reader) >= max_queued) {
    throw http::Problem(503, "queue_full", fmt::format("{} runs are already queued", max_queued));
  }
}

json::value memory_item(const launch::CheckedConfig& config) {
  if (config.memory.empty()) return nullptr;
  json::object item;
  for (const auto& [name, value] : config.memory) item[name] = value;
  return item;
}

}  // namespace

http::Response submit_run(Service& service, const http::Request& request) {
  return service.idempotency.once(request, [&] {
    require_space(service);
    const Submission submission = read_submission(service, request);
    const std::string path = "/api/v1/runs/" + submission.run.id;
    access::audited_write(
        service.audit, request, 202,
        [&](store::Database& database) { store::create_run(database, submission.run, wall_time_ms()); }, path);
    publish_run(service, submission.run.id);
    control_of(service).wake();
    return run_response(service, submission.run.id, 202).set("Location", path);
  });
}

/// Performs all checks of a submission and returns the command, without storing anything.
http::Response validate_run(Service& service, const http::Request& request) {
  const Submission submission = read_submission(service, request);
  launch::LaunchOrder order{.run = "RUN",
                            .name = submission.run.name,
                            .attempt = 1,
                            .world_size = submission.run.world_size,
                            .folder = std::filesystem::path(submission.profile->folder) / "RUN",
                            .resume_from = submission.run.resume_folder,
                            .server = submission.profile->server};
  for (const std::string& host : submission.profile->hosts) order.hosts.push_back(launch::parse_host(host));
  const std::vector<std::string> command = control_of(service).command(*submission.profile, order);
  json::array unknown(submission.config.not_estimated.begin(), submission.config.not_estimated.end());
  const auto parameters = submission.config.memory.find("parameters");
  auto reader = service.store.reader();
  const auto time =
      verdict::recorded_step_time(*reader, *submission.profile, submission.config.yaml, submission.run.world_size,
                                  parameters == submission.config.memory.end() ? 0 : parameters->second);
  if (!time) {
    unknown.emplace_back(
        "step_ms: no recorded run has the same model, precision, tokens_per_update, threads and ranks on the same "
        "hosts");
  }
  return json_response(json::object{{"profile", submission.profile->name},
                                    {"world_size", submission.run.world_size},
                                    {"config", submission.config.yaml},
                                    {"command", json::array(command.begin(), command.end())},
                                    {"max_updates", positive_or_null(submission.config.max_updates)},
                                    {"memory", memory_item(submission.config)},
                                    {"step_ms", time ? json::value(time->step_ms) : nullptr},
                                    {"step_ms_run", time ? json::value(time->run) : nullptr},
                                    {"not_estimated", std::move(unknown)}});
}

http::Response list_profiles(Service& service, const http::Request& request) {
  const auto profiles = control_of(service).profiles();
  NamedPage page(request);
  for (const auto& [name, profile] : *profiles) {
    if (!page.takes(name)) continue;
    page.add({{"name", name},
              {"launcher", profile.launcher},
              {"hosts", json::array(profile.hosts.begin(), profile.hosts.end())},
              {"max_ranks", profile.max_ranks},
              {"max_running", profile.max_running}});
  }
  return page.response();
}

}  // namespace babelring::api
