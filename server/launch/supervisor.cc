#include "server/launch/supervisor.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "base/clock.h"
#include "base/files.h"
#include "base/log.h"
#include "base/records/records.h"
#include "base/records/run_marks.h"

namespace babelring::launch {
namespace {

using store::RunEvent;
using store::RunState;

constexpr auto while_attempts_live = std::chrono::milliseconds(200);
constexpr auto while_others_wait = std::chrono::seconds(2);  // queued, cooling down, lost
constexpr auto while_there_is_nothing = std::chrono::seconds(30);
constexpr auto max_lateness = std::chrono::seconds(1);      // of a tick; silence before a later tick is ignored
constexpr auto suspending_grace = std::chrono::minutes(5);  // for an attempt's ranks to save and end
constexpr auto max_tick = std::chrono::seconds(3);          // expected duration of a tick; more counts as lateness
constexpr std::int64_t usage_exit_code = 2;                 // a restart would fail again

/// Prevents leftover processes of the attempt, on any host, from completing a checkpoint.
void fence_folder(const store::LaunchRow& run) {
  try {
    write_fence(run.folder, run.attempt);
  } catch (const std::exception& failure) {  // folder unavailable; end the attempt anyway
    spdlog::error("run {}: {}", run.id, printable(failure.what()));
  }
}

std::vector<Host> hosts_of(const Profile& profile) {
  std::vector<Host> hosts;
  for (const std::string& text : profile.hosts) hosts.push_back(parse_host(text));
  return hosts;
}

std::string cause_of_start(const store::LaunchRow& run, std::int64_t ranks) {
  const std::string fewer =
      ranks == run.world_size ? "" : fmt::format(", with {} of {} ranks: hosts are missing", ranks, run.world_size);
  if (run.state == RunState::queued) return "started from the queue" + fewer;
  if (run.state == RunState::suspended) return "continues" + fewer;
  return fmt::format("restart {} of {}{}", run.restarts, run.max_restarts, fewer);
}

}  // namespace

Supervisor::Supervisor(SupervisorParts parts)
    : parts_(std::move(parts)), evaluations_([this](const std::string& run, const std::string& sentence) {
        spdlog::warn("run {}: {}", run, sentence);
        const store::StateChange note{run, RunEvent::evaluation_failed, sentence, "supervisor"};
        parts_.store.write([&](store::Database& database) { store::change_state(database, note, wall_time_ms()); });
        parts_.changed(run);
      }) {}

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
  lively_ = saving_ = false;
  running_.clear();
  for (const auto& run : runs) {
    known.insert(run.id);
    if (!store::has_attempt(run.state)) continue;
    ++running_[run.profile];
    lively_ = true;
  }
  for (const auto& run : externals) known.insert(run.id);
  std::erase_if(watches_, [&](const auto& entry) { return !known.contains(entry.first); });
  hosts_.keep_runs(known);
  supervise_all(runs, &Supervisor::supervise);
  supervise_all(externals, &Supervisor::supervise_external);
  evaluations_.tick(known, now_);
  if (lively_) return while_attempts_live;
  const bool idle = runs.empty() && externals.empty() && !evaluations_.has_work();
  return idle ? while_there_is_nothing : std::chrono::milliseconds(while_others_wait);
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

void Supervisor::start(const store::LaunchRow& run, const Profile& profile) {
  if (const auto running = running_.find(run.profile); running != running_.end()) {
    if (running->second >= profile.max_running) return;
  }
  const auto chosen = hosts_.choose(profile, run.world_size, needs_power_of_two(run.config), now_);
  if (!chosen) return;
  Launcher& launcher = *parts_.launchers.at(profile.launcher);
  if (!hosts_.may_start_on(chosen->hosts, run.id, profile, launcher, now_)) return;
  const bool own = run.newest_checkpoint_step > run.resume_step;  // the run's newest, not the one that was chosen
  LaunchOrder order{.run = run.id,
                    .name = run.name,
                    .world_size = chosen->ranks,
                    .folder = run.folder,
                    .resume_from = own ? "" : run.resume_folder,
                    .expect_checkpoint = own ? run.newest_checkpoint_step : 0,
                    .hosts = chosen->hosts,
                    .server = profile.server,
                    .environment = parts_.environment(run.id)};
  const std::string cause = cause_of_start(run, chosen->ranks);
  store::LaunchRow begun = run;
  begun.world_size = chosen->ranks;
  const auto attempt = parts_.store.write([&](store::Database& database) {
    return store::begin_attempt(database, begun, launcher.name(), order.resume_from, cause, wall_time_ms());
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
    AttemptWatch watch(order.attempt, now_, true);
    watch.set_hosts(order.hosts);
    watches_.insert_or_assign(run.id, std::move(watch));
    evaluations_.start(profile, order, launcher, now_);
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

WatchTimes Supervisor::times_of(const store::LaunchRow& run) const {
  const Time heard = parts_.heard_until ? std::min(parts_.heard_until(run.id), now_) : now_;
  return {.now = now_, .heard_until = heard, .awake_since = awake_since_};
}

std::vector<ReceivedHeartbeat> Supervisor::beats_of(const store::LaunchRow& run) const {
  return parts_.heartbeats.of(run.id, run.attempt);
}

void Supervisor::supervise(const store::LaunchRow& run) {
  const auto profile = parts_.profiles.find(run.profile);
  if (profile == parts_.profiles.end()) {
    if (run.state == RunState::lost) return;
    const bool there = store::has_attempt(run.state);
    change(run, there ? RunEvent::vanished : RunEvent::gave_up,
           fmt::format("this server has no profile '{}'", run.profile));
    return;
  }
  if (run.state == RunState::lost) {
    report_signs_of_life(run, beats_of(run));
  } else if (store::has_attempt(run.state)) {
    const std::string& name = run.launcher.empty() ? profile->second.launcher : run.launcher;
    poll(run, profile->second, *parts_.launchers.at(name));
  } else if (suspending_ == Suspending::no) {
    start(run, profile->second);
  }
}

void Supervisor::supervise_external(const store::LaunchRow& run) {
  const std::vector<ReceivedHeartbeat> beats = beats_of(run);
  if (run.state == RunState::lost) {
    report_signs_of_life(run, beats);
    return;
  }
  AttemptWatch& watch = watch_of(run);
  const WatchTimes times = times_of(run);
  const bool overdue = watch.stopping_s(now_) > static_cast<double>(run.stop_grace_s);
  if (overdue && heard_within(beats, AttemptWatch::lost_after, times)) {
    end_external(run, fmt::format("did not stop within {} s", run.stop_grace_s));
  } else if (watch.is_lost_silent(beats, times)) {
    watches_.erase(run.id);
    change(run, RunEvent::vanished, "asked to stop, and no rank reports any more");
  }
}

/// Ends and fences the attempt. Ranks that are still running end at their next heartbeat.
void Supervisor::end_external(const store::LaunchRow& run, const std::string& cause) {
  parts_.store.write([&](store::Database& database) {
    store::end_attempt(database, {run.id, run.attempt, std::nullopt, RunEvent::ended_on_request, cause, "supervisor"},
                       wall_time_ms());
  });
  watches_.erase(run.id);
  parts_.changed(run.id);
}

void Supervisor::report_signs_of_life(const store::LaunchRow& run, const std::vector<ReceivedHeartbeat>& beats) {
  const Time since = times_of(run).heard_until - AttemptWatch::patience;
  const auto fresh =
      std::find_if(beats.begin(), beats.end(), [&](const ReceivedHeartbeat& beat) { return beat.at >= since; });
  if (fresh == beats.end()) return;
  change(run, RunEvent::reported, fmt::format("rank {} reports", fresh->beat.rank));
}

bool Supervisor::find_launcher(store::LaunchRow& run, AttemptWatch& watch, Launcher& launcher) {
  if (run.handle.pid > 0 || !run.handle.job.empty()) return true;
  const auto handle = launcher.find(run.id, run.attempt);
  if (!handle) return false;
  run.handle = *handle;
  watch.set_rediscovered();
  parts_.store.write(
      [&](store::Database& database) { store::record_launcher(database, run.number, run.attempt, *handle); });
  return true;
}

AttemptWatch& Supervisor::watch_of(const store::LaunchRow& run) {
  const auto found = watches_.find(run.id);
  if (found != watches_.end() && found->second.attempt() == run.attempt) return found->second;
  if (run.launcher != "external") spdlog::info("run {} attempt {}: resuming supervision", run.id, run.attempt);
  return watches_.insert_or_assign(run.id, AttemptWatch(run.attempt, now_, false)).first->second;
}

void Supervisor::poll(const store::LaunchRow& row, const Profile& profile, Launcher& launcher) {
  store::LaunchRow run = row;
  AttemptWatch& watch = watch_of(run);
  if (!find_launcher(run, watch, launcher)) {
    finish(run, profile, watch, {.kind = ProcessStatus::Kind::ended, .detail = "the server ended during the launch"});
    return;
  }
  const ProcessStatus status = launcher.poll(run.handle);
  if (status.kind != ProcessStatus::Kind::unknown) watch.set_seen();
  switch (status.kind) {
    case ProcessStatus::Kind::ended:
    case ProcessStatus::Kind::preempted:
      finish(run, profile, watch, status);
      return;
    case ProcessStatus::Kind::pending:
      watch.set_pending(now_);
      if (run.state != RunState::stopping) return;
      // Schedulers call an attempt pending also while they suspend it, and for a moment after their own restart.
      if (!beats_of(run).empty() ||
          store::has_steps(*parts_.store.reader(store::Store::For::own), run.number, run.attempt)) {
        check_living(run, profile, launcher, watch);
      } else if (watch.ending() == nullptr) {
        begin_ending(run, launcher, watch, {RunEvent::ended_on_request, "stopped before it started", ""});
      }
      return;
    case ProcessStatus::Kind::alive:
      watch.set_seen_alive();
      if (!evaluations_.knows(run.id)) {  // an earlier server process started the attempt
        evaluations_.start(profile, {.run = run.id, .name = run.name, .folder = run.folder, .server = profile.server},
                           launcher, now_);
      }
      check_living(run, profile, launcher, watch);
      return;
    case ProcessStatus::Kind::unknown:
      break;
  }
  if (watch.is_lost_unseen(beats_of(run), times_of(run))) {
    change(run, RunEvent::vanished,
           status.detail.empty() ? "the launcher cannot be found and no rank reports" : status.detail);
    watches_.erase(run.id);
  }
}

void Supervisor::check_living(const store::LaunchRow& run, const Profile& profile, Launcher& launcher,
                              AttemptWatch& watch) {
  if (watch.ending() != nullptr) {
    saving_ |= suspends(launcher);
    launcher.kill(run.handle, watch.ending_is_urgent(now_));
    return;
  }
  if (suspends(launcher)) {
    suspend(run, launcher, watch);
    if (watch.ending() != nullptr) return;
  }
  const std::vector<ReceivedHeartbeat> beats = beats_of(run);
  if (run.state == RunState::launching) report_signs_of_life(run, beats);
  std::optional<Ending> ending;
  if (run.state == RunState::stopping) ending = watch.stop_overdue(run, beats, now_);
  const std::int64_t ranks = run.attempt_ranks > 0 ? run.attempt_ranks : run.world_size;
  if (!ending) ending = watch.suspending_overdue(now_, suspending_grace);
  if (!ending) ending = watch.find_fault(profile, ranks, beats, times_of(run));
  if (ending) {
    begin_ending(run, launcher, watch, std::move(*ending));
  } else if (run.state == RunState::running && ranks < run.world_size && !watch.is_suspending() &&
             suspending_ == Suspending::no) {
    grow(run, profile, launcher, watch);
  }
}

void Supervisor::grow(const store::LaunchRow& run, const Profile& profile, Launcher& launcher, AttemptWatch& watch) {
  if (!watch.may_look_for_hosts(run.newest_checkpoint_step)) return;
  const auto chosen = hosts_.choose(profile, run.world_size, needs_power_of_two(run.config), now_);
  if (!chosen || chosen->ranks < run.world_size) return;  // hosts cool down
  const std::optional<bool> answer = launcher.hosts_answer(profile, chosen->hosts);
  if (!answer.value_or(true)) {
    spdlog::info("run {} attempt {}: a missing host does not answer yet", run.id, run.attempt);
    watch.looked_for_hosts();
  }
  if (!answer.value_or(false)) return;
  const std::string cause = fmt::format("all hosts answer: continues with {} ranks", run.world_size);
  spdlog::info("run {} attempt {}: {}", run.id, run.attempt, cause);
  watch.begin_suspending(cause, now_);
  launcher.ask_to_stop(run.handle);
}

bool Supervisor::suspends(const Launcher& launcher) const {
  return suspending_ == Suspending::all || (suspending_ == Suspending::beside_server && launcher.runs_beside_server());
}

void Supervisor::suspend(const store::LaunchRow& run, Launcher& launcher, AttemptWatch& watch) {
  saving_ = true;
  if (run.state == RunState::stopping || watch.is_suspending()) return;
  if (run.state == RunState::launching) {  // its ranks may not exist yet, and have nothing to save
    begin_ending(run, launcher, watch, {RunEvent::preempted, "the server ended", ""});
    return;
  }
  spdlog::info("run {} attempt {}: asked to save and end, because the server ends", run.id, run.attempt);
  watch.begin_suspending("the server ended", now_);
  launcher.ask_to_stop(run.handle);
}

void Supervisor::begin_ending(const store::LaunchRow& run, Launcher& launcher, AttemptWatch& watch, Ending ending) {
  spdlog::warn("run {} attempt {}: ending the attempt: {}", run.id, run.attempt, ending.cause);
  watch.begin_ending(std::move(ending), now_);
  parts_.store.write([&](store::Database& database) { store::fence_attempt(database, run.number, run.attempt); });
  fence_folder(run);
  launcher.kill(run.handle, false);
}

void Supervisor::finish(const store::LaunchRow& row, const Profile& profile, const AttemptWatch& watch,
                        const ProcessStatus& status) {
  store::LaunchRow run = row;
  {
    // The last records may have arrived after `row` was read.
    auto reader = parts_.store.reader(store::Store::For::own);
    std::tie(run.outcome, run.outcome_detail) = store::find_outcome(*reader, run.number, run.attempt);
  }
  Ending end = classify_end(run, watch.decided(), status, watch.was_seen_alive() ? Absence::none : parts_.absence);
  const bool known =
      status.exit_code || watch.ending() != nullptr || run.outcome != store::Outcome::none || watch.started_here();
  if (end.event == RunEvent::faulted) {
    const std::string host = watch.hosts().empty() ? listed_host(hosts_of(profile), end.host, std::nullopt)
                                                   : listed_host(watch.hosts(), end.host, end.rank);
    hosts_.record_fault(profile, host, now_);
    if (host.empty() && !profile.hosts.empty()) hosts_.search_hosts(run.id);
    const bool diverged = run.outcome == store::Outcome::failed && run.outcome_detail.starts_with(diverged_prefix);
    const bool hopeless = (status.exit_code == usage_exit_code || diverged) && watch.ending() == nullptr;
    if (hopeless || run.restarts >= run.max_restarts) end.event = known ? RunEvent::gave_up : RunEvent::vanished;
  }
  fence_folder(run);
  const auto after = parts_.store.write([&](store::Database& database) {
    const auto box = parts_.heartbeats.black_box(run.id, run.attempt);
    if (box) store::put_black_box(database, run.id, parts_.heartbeats.row_of(*box));
    return store::end_attempt(database, {run.id, run.attempt, status.exit_code, end.event, end.cause, "supervisor"},
                              wall_time_ms());
  });
  spdlog::info("run {} attempt {}: {} ({})", run.id, run.attempt, after ? store::name_of(*after) : "over", end.cause);
  watches_.erase(run.id);
  parts_.heartbeats.forget(run.id);
  parts_.changed(run.id);
}

void Supervisor::change(const store::LaunchRow& run, RunEvent event, const std::string& cause) {
  const auto after = parts_.store.write([&](store::Database& database) {
    return store::change_state(database, {run.id, event, cause, "supervisor"}, wall_time_ms());
  });
  if (after && *after != run.state) parts_.changed(run.id);
}

}  // namespace babelring::launch
