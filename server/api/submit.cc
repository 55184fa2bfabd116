#include "base/clock.h"
#include "base/records.h"
#include "server/access/audited.h"
#include "server/api/control.h"
#include "server/api/handlers.h"
#include "server/api/responses.h"
#include "server/artifacts/checkpoint_files.h"
#include "server/verdict/step_time.h"

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
  Submission wish;
  wish.profile = read_profile(control, body);
  const std::string yaml = read_config_text(service, body);
  wish.run.name = body.name_text("name", max_run_name_bytes).value_or("");
  wish.run.world_size = body.integer("world_size", 1, wish.profile->max_ranks).value_or(1);
  wish.run.max_restarts = body.integer("max_restarts", 0, 1000).value_or(3);
  wish.run.labels = read_labels(body).value_or("{}");
  wish.run.notes = body.text("notes", max_notes_bytes).value_or("");
  if (const auto checkpoint = body.text("resume_from", 28)) {
    const store::CheckpointRow row = artifacts::require_loadable(service.store, service.checkpoint_roots, *checkpoint);
    wish.run.resume_folder = row.folder;
    wish.run.resume_step = row.step;
  }
  body.finish();
  wish.config = launch::check_config(*wish.profile, yaml, wish.run.name, wish.run.world_size,
                                     [&request] { return request.abandoned(); });
  check_faults(wish.config);
  wish.run.id = make_id('r');
  wish.run.name = wish.config.name;
  wish.run.profile = wish.profile->name;
  wish.run.folder = (std::filesystem::path(wish.profile->folder) / wish.run.id).string();
  wish.run.config = wish.config.yaml;
  wish.run.actor = request.actor;
  return wish;
}

void require_room(Service& service) {
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
    require_room(service);
    const Submission wish = read_submission(service, request);
    const std::string made = "/api/v1/runs/" + wish.run.id;
    access::audited_write(
        service.audit, request, 202,
        [&](store::Database& database) { store::create_run(database, wish.run, wall_time_ms()); }, made);
    announce_run(service, wish.run.id);
    control_of(service).wake();
    return run_response(service, wish.run.id, 202).set("Location", made);
  });
}

/// Performs all checks of a submission and returns the command, without storing anything.
http::Response validate_run(Service& service, const http::Request& request) {
  const Submission wish = read_submission(service, request);
  launch::LaunchOrder order{.run = "RUN",
                            .name = wish.run.name,
                            .attempt = 1,
                            .world_size = wish.run.world_size,
                            .folder = std::filesystem::path(wish.profile->folder) / "RUN",
                            .resume_from = wish.run.resume_folder,
                            .server = wish.profile->server};
  for (const std::string& host : wish.profile->hosts) order.hosts.push_back(launch::parse_host(host));
  const std::vector<std::string> command = control_of(service).command(*wish.profile, order);
  json::array unknown(wish.config.not_estimated.begin(), wish.config.not_estimated.end());
  const auto parameters = wish.config.memory.find("parameters");
  auto reader = service.store.reader();
  const auto time = verdict::recorded_step_time(*reader, *wish.profile, wish.config.yaml, wish.run.world_size,
                                                parameters == wish.config.memory.end() ? 0 : parameters->second);
  if (!time) {
    unknown.emplace_back(
        "step_ms: no recorded run has the same model, precision, tokens_per_update, threads and ranks on the same "
        "hosts");
  }
  return json_response(
      json::object{{"profile", wish.profile->name},
                   {"world_size", wish.run.world_size},
                   {"config", wish.config.yaml},
                   {"command", json::array(command.begin(), command.end())},
                   {"max_updates", wish.config.max_updates > 0 ? json::value(wish.config.max_updates) : nullptr},
                   {"memory", memory_item(wish.config)},
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
