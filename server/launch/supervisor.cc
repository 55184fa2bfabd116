#include "server/launch/supervisor.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <set>

#include "base/atomic_file.h"
#include "base/clock.h"
#include "base/log.h"

namespace babelring::launch {
namespace {

using store::RunEvent;
using store::RunState;

constexpr auto while_attempts_live = std::chrono::milliseconds(200);
constexpr auto while_others_wait = std::chrono::seconds(2);  // queued, cooling down, lost
constexpr auto while_there_is_nothing = std::chrono::seconds(30);
constexpr auto max_lateness = std::chrono::seconds(1);  // of a tick; silence before a later tick is ignored
constexpr auto max_tick = std::chrono::seconds(3);      // expected duration of a tick; more counts as lateness

}  // namespace

std::chrono::milliseconds Supervisor::tick() {
  now_ = parts_.now();
  // A delay of this thread may also have delayed heartbeats, so all silence timeouts start again.
  if (now_ - due_ > max_lateness) awake_since_ = now_;
  due_ = now_;  // in case supervise_runs() throws
  const std::chrono::milliseconds pause = supervise_runs();
  // Launcher commands may take seconds. Heartbeats are processed in the meantime.
  due_ = std::min(parts_.now(), now_ + max_tick) + pause;
  return pause;
}

std::chrono::milliseconds Supervisor::supervise_runs() {
  std::vector<store::LaunchRow> runs, externals;
  {
    auto reader = parts_.store.reader(store::Store::For::own);
    runs = store::active_launches(*reader);
    externals = store::ending_externals(*reader);
  }
  std::set<std::string> known;
  lively_ = false;
  running_.clear();
  for (const auto& run : runs) {
    known.insert(run.id);
    if (!store::has_attempt(run.state)) continue;
    ++running_[run.profile];
    lively_ = true;
  }
  for (const auto& run : externals) known.insert(run.id);
  std::erase_if(watches_, [&](const auto& entry) { return !known.contains(entry.first); });
  supervise_all(runs, &Supervisor::supervise);
  supervise_all(externals, &Supervisor::supervise_external);
  if (lively_) return while_attempts_live;
  return runs.empty() && externals.empty() ? while_there_is_nothing : std::chrono::milliseconds(while_others_wait);
}

void Supervisor::supervise_all(const std::vector<store::LaunchRow>& runs,
                               void (Supervisor::*supervise_one)(const store::LaunchRow&)) {
  for (const auto& run : runs) {
    try {
      (this->*supervise_one)(run);
    } catch (const store::SqlFailure&) {
      throw;
    } catch (const store::Busy&) {
      throw;
    } catch (const std::exception& failure) {  // affects only this run
      spdlog::error("run {}: {}", run.id, printable(failure.what()));
    }
  }
}

bool Supervisor::has_room(const store::LaunchRow& run, const Profile& profile) const {
  const auto running = running_.find(run.profile);
  return running == running_.end() || running->second < profile.max_running;
}

std::optional<std::vector<Host>> Supervisor::choose_hosts(const Profile& profile, std::int64_t ranks) const {
  // Faults without a faulty host count against the profile: retry at once after the first, and with backoff later.
  const std::string whole = blamed(profile, "");
  if (cool_down_.strikes(whole, now_) > 1 && cool_down_.ready_at(whole, now_) > now_) return std::nullopt;
  if (profile.hosts.empty()) return std::vector<Host>();  // this host, or chosen by the scheduler
  std::vector<Host> available, struck;
  for (const std::string& text : profile.hosts) {
    const Host host = parse_host(text);
    const bool cooling = cool_down_.ready_at(host.name, now_) > now_;
    if (!cooling) available.push_back(host);
    if (cooling && cool_down_.strikes(host.name, now_) == 1) struck.push_back(host);
  }
  available.insert(available.end(), struck.begin(), struck.end());
  std::vector<Host> chosen;
  for (Host host : available) {
    if (ranks == 0) break;
    host.slots = std::min(host.slots, ranks);
    ranks -= host.slots;
    chosen.push_back(std::move(host));
  }
  if (ranks > 0) return std::nullopt;
  return chosen;
}

std::string Supervisor::blamed(const Profile& profile, const std::string& host) {
  const bool listed = std::any_of(profile.hosts.begin(), profile.hosts.end(),
                                  [&](const std::string& text) { return parse_host(text).name == host; });
  return listed ? host : "profile " + profile.name;  // not a valid host name, because of the space
}

void Supervisor::start(const store::LaunchRow& run, const Profile& profile) {
  if (!has_room(run, profile)) return;
  const auto hosts = choose_hosts(profile, run.world_size);
  if (!hosts) return;
  Launcher& launcher = *parts_.launchers.at(profile.launcher);
  LaunchOrder order{.run = run.id,
                    .name = run.name,
                    .world_size = run.world_size,
                    .folder = run.folder,
                    .resume_from = run.newest_checkpoint_step > run.resume_step ? "" : run.resume_folder,
                    .hosts = *hosts,
                    .server = profile.server,
                    .environment = parts_.environment(run.id)};
  const std::string cause = run.state == RunState::queued
                                ? "started from the queue"
                                : fmt::format("restart {} of {}", run.restarts, run.max_restarts);
  const auto attempt = parts_.store.write([&](store::Database& database) {
    return store::begin_attempt(database, run, launcher.name(), order.resume_from, cause, wall_time_ms());
  });
  if (!attempt) return;  // stopped meanwhile
  order.attempt = *attempt;
  ++running_[run.profile];
  lively_ = true;
  try {
    std::filesystem::create_directories(order.folder);
    write_file_atomically(launch_config_path(order.folder), run.config);
    const store::LauncherHandle handle = launcher.start(profile, order);
    parts_.store.write(
        [&](store::Database& database) { store::record_launcher(database, run.number, order.attempt, handle); });
    watches_[run.id] = {.attempt = order.attempt, .started_here = true, .since = now_};
    spdlog::info("run {} attempt {}: started by {} ({})", run.id, order.attempt, launcher.name(),
                 handle.job.empty() ? fmt::format("pid {}", handle.pid) : "job " + handle.job);
  } catch (const store::SqlFailure&) {
    throw;  // Launcher::find() finds the processes later
  } catch (const store::Busy&) {
    throw;
  } catch (const std::exception& failure) {
    const std::string why = fmt::format("could not be started: {}", printable(failure.what()));
    parts_.store.write([&](store::Database& database) {
      store::end_attempt(database, {run.id, order.attempt, std::nullopt, RunEvent::gave_up, why, "supervisor"},
                         wall_time_ms());
    });
  }
  parts_.changed(run.id);
}

void Supervisor::change(const store::LaunchRow& run, RunEvent event, const std::string& cause) {
  const auto after = parts_.store.write([&](store::Database& database) {
    return store::change_state(database, {run.id, event, cause, "supervisor"}, wall_time_ms());
  });
  if (after && *after != run.state) parts_.changed(run.id);
}

}  // namespace babelring::launch
