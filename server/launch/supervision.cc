#include <spdlog/spdlog.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "base/log.h"
#include "base/records.h"
#include "base/run_fence.h"
#include "server/launch/launcher_log.h"
#include "server/launch/supervisor.h"

namespace babelring::launch {
namespace {

using store::RunEvent;
using store::RunState;

constexpr auto patience = std::chrono::seconds(3);     // between asking processes to end and killing them
constexpr auto lost_after = std::chrono::seconds(60);  // without launcher status and heartbeats
constexpr double deaf_factor = 4;            // longer timeout if all ranks are silent: the network may have failed
constexpr std::int64_t usage_exit_code = 2;  // a restart would fail again

double seconds_between(SteadyClock::time_point from, SteadyClock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

/// The cause of an attempt's unexpected end, from the most specific source available.
std::string cause_of_end(const store::LaunchRow& run, const ProcessStatus& status, const std::optional<LostRank>& lost,
                         const std::string& log) {
  if (lost && lost->how != "ended") return fmt::format("rank {} on {} was {}", lost->rank, lost->host, lost->how);
  if (run.outcome == store::Outcome::failed && !run.outcome_detail.empty()) return run.outcome_detail;
  if (std::string line = last_error_line(log); !line.empty()) return line;
  if (!status.detail.empty()) return status.detail;
  if (status.exit_code && *status.exit_code > 128) {
    return fmt::format("{} was killed by signal {}", run.launcher, *status.exit_code - 128);
  }
  if (status.exit_code) return fmt::format("{} ended with exit code {}", run.launcher, *status.exit_code);
  return run.launcher + " ended while no server was running; its exit code is unknown";
}

/// Prevents leftover processes of the attempt, on any host, from completing a checkpoint.
void fence_folder(const store::LaunchRow& run) {
  try {
    write_fence(run.folder, run.attempt);
  } catch (const std::exception& failure) {  // folder unavailable; end the attempt anyway
    spdlog::error("run {}: {}", run.id, printable(failure.what()));
  }
}

}  // namespace

Supervisor::Time Supervisor::heard_until(const std::string& run) const {
  return parts_.heard_until ? std::min(parts_.heard_until(run), now_) : now_;
}

bool Supervisor::heard_within(const store::LaunchRow& run, const std::vector<ReceivedHeartbeat>& beats,
                              std::chrono::seconds age) const {
  const Time since = heard_until(run.id) - age;
  return std::any_of(beats.begin(), beats.end(), [&](const ReceivedHeartbeat& beat) { return beat.at > since; });
}

double Supervisor::silence_s(const ReceivedHeartbeat& beat, const Watch& watch, Time until) const {
  return seconds_between(std::max({beat.at, awake_since_, watch.since}), until);
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
    report_signs_of_life(run, parts_.heartbeats.of(run.id, run.attempt));
  } else if (store::has_attempt(run.state)) {
    const std::string& name = run.launcher.empty() ? profile->second.launcher : run.launcher;
    watch(run, profile->second, *parts_.launchers.at(name));
  } else {
    start(run, profile->second);
  }
}

void Supervisor::supervise_external(const store::LaunchRow& run) {
  const std::vector<ReceivedHeartbeat> beats = parts_.heartbeats.of(run.id, run.attempt);
  if (run.state == RunState::lost) {
    report_signs_of_life(run, beats);
    return;
  }
  Watch& watch = watches_[run.id];
  if (watch.attempt != run.attempt) watch = {.attempt = run.attempt, .since = now_};
  if (!watch.stopping_since) watch.stopping_since = now_;
  const bool heard = heard_within(run, beats, lost_after);
  if (heard && seconds_between(*watch.stopping_since, now_) > static_cast<double>(run.stop_grace_s)) {
    finish_external(run, fmt::format("did not stop within {} s", run.stop_grace_s));
    return;
  }
  if (heard || heard_until(run.id) - std::max(watch.since, awake_since_) < lost_after) return;
  watches_.erase(run.id);
  change(run, RunEvent::vanished, "asked to stop, and no rank reports any more");
}

/// Ends and fences the attempt. Ranks that are still running end at their next heartbeat.
void Supervisor::finish_external(const store::LaunchRow& run, const std::string& cause) {
  parts_.store.write([&](store::Database& database) {
    store::end_attempt(database, {run.id, run.attempt, std::nullopt, RunEvent::ended_on_request, cause, "supervisor"},
                       wall_time_ms());
  });
  watches_.erase(run.id);
  parts_.changed(run.id);
}

void Supervisor::report_signs_of_life(const store::LaunchRow& run, const std::vector<ReceivedHeartbeat>& beats) {
  const Time since = heard_until(run.id) - patience;
  const auto fresh =
      std::find_if(beats.begin(), beats.end(), [&](const ReceivedHeartbeat& beat) { return beat.at >= since; });
  if (fresh == beats.end()) return;
  change(run, RunEvent::reported, fmt::format("rank {} reports", fresh->beat.rank));
}

bool Supervisor::find_launcher(store::LaunchRow& run, Watch& watch, Launcher& launcher) {
  if (run.handle.pid > 0 || !run.handle.job.empty()) return true;
  const auto handle = launcher.find(run.id, run.attempt);
  if (!handle) return false;
  run.handle = *handle;
  watch.started_here = false;
  parts_.store.write(
      [&](store::Database& database) { store::record_launcher(database, run.number, run.attempt, *handle); });
  return true;
}

void Supervisor::watch(const store::LaunchRow& row, const Profile& profile, Launcher& launcher) {
  store::LaunchRow run = row;
  Watch& watch = watches_[run.id];
  if (watch.attempt != run.attempt) {
    watch = {.attempt = run.attempt, .since = now_};
    spdlog::info("run {} attempt {}: resuming supervision", run.id, run.attempt);
  }
  if (!find_launcher(run, watch, launcher)) {
    finish(run, profile, watch, {.kind = ProcessStatus::Kind::ended, .detail = "the server ended during the launch"});
    return;
  }
  const ProcessStatus status = launcher.poll(run.handle);
  if (status.kind != ProcessStatus::Kind::unknown) watch.unseen_since.reset();
  switch (status.kind) {
    case ProcessStatus::Kind::ended:
    case ProcessStatus::Kind::preempted:
      finish(run, profile, watch, status);
      return;
    case ProcessStatus::Kind::pending:
      watch.since = now_;  // not started yet: no timeout applies
      if (run.state == RunState::stopping && !watch.ending) {
        begin_end(run, launcher, watch, {now_, RunEvent::ended_on_request, "stopped before it started", ""});
      }
      return;
    case ProcessStatus::Kind::alive:
      watch_living(run, profile, launcher, watch);
      return;
    case ProcessStatus::Kind::unknown:
      break;
  }
  if (!watch.unseen_since) watch.unseen_since = now_;
  const auto beats = parts_.heartbeats.of(run.id, run.attempt);
  if (!heard_within(run, beats, lost_after) && now_ - *watch.unseen_since > lost_after) {
    change(run, RunEvent::vanished,
           status.detail.empty() ? "the launcher cannot be found and no rank reports" : status.detail);
    watches_.erase(run.id);
  }
}

void Supervisor::watch_living(const store::LaunchRow& run, const Profile& profile, Launcher& launcher, Watch& watch) {
  if (watch.ending) {
    launcher.kill(run.handle, now_ - watch.ending->since > patience);
    return;
  }
  const std::vector<ReceivedHeartbeat> beats = parts_.heartbeats.of(run.id, run.attempt);
  if (run.state == RunState::launching) report_signs_of_life(run, beats);
  if (run.state == RunState::stopping) watch_stopping(run, launcher, watch);
  if (watch.ending) return;
  if (auto fault = find_fault(run, profile, watch, beats)) {
    begin_end(run, launcher, watch, {now_, RunEvent::faulted, std::move(fault->cause), std::move(fault->host)});
  }
}

void Supervisor::watch_stopping(const store::LaunchRow& run, Launcher& launcher, Watch& watch) {
  if (!watch.stopping_since) watch.stopping_since = now_;
  const double waited = seconds_between(*watch.stopping_since, now_);
  const bool reached = !parts_.heartbeats.of(run.id, run.attempt).empty();
  if (run.stop_mode == store::StopMode::now || (!reached && waited > 3)) {
    begin_end(run, launcher, watch, {now_, RunEvent::ended_on_request, "stopped immediately", ""});
  } else if (waited > static_cast<double>(run.stop_grace_s)) {
    begin_end(run, launcher, watch,
              {now_, RunEvent::ended_on_request, fmt::format("did not stop within {} s", run.stop_grace_s), ""});
  }
}

std::optional<Supervisor::Fault> Supervisor::find_fault(const store::LaunchRow& run, const Profile& profile,
                                                        const Watch& watch,
                                                        const std::vector<ReceivedHeartbeat>& beats) const {
  const ReceivedHeartbeat* quietest = nullptr;
  std::set<std::int64_t> heard;
  const Time until = heard_until(run.id);
  double shortest = 1e300, newest_update = 1e300;
  for (const ReceivedHeartbeat& beat : beats) {
    heard.insert(beat.beat.rank);
    if (quietest == nullptr || beat.at < quietest->at) quietest = &beat;
    shortest = std::min(shortest, silence_s(beat, watch, until));
    newest_update = std::min(newest_update, beat.beat.since_update_s + silence_s(beat, watch, until));
  }
  const double since_start = seconds_between(std::max(watch.since, awake_since_), until);
  if (since_start > profile.launch_timeout_s) {
    for (std::int64_t rank = 0; rank < run.world_size; ++rank) {
      if (heard.contains(rank)) continue;
      return Fault{fmt::format("rank {} did not report within {} s", rank, profile.launch_timeout_s), ""};
    }
  }
  if (quietest == nullptr) return std::nullopt;
  const double silence = silence_s(*quietest, watch, until);
  const bool all_silent = shortest > profile.heartbeat_timeout_s;
  if (silence > profile.heartbeat_timeout_s * (all_silent ? deaf_factor : 1)) {
    return Fault{
        fmt::format("rank {} on {} sent no heartbeat for {:.1f} s", quietest->beat.rank, quietest->beat.host, silence),
        quietest->beat.host};
  }
  const bool complete = static_cast<std::int64_t>(heard.size()) >= run.world_size;
  if (profile.stall_timeout_s > 0 && complete && newest_update > profile.stall_timeout_s) {
    return Fault{fmt::format("no update for {:.0f} s although all ranks report", newest_update), ""};
  }
  return std::nullopt;
}

void Supervisor::begin_end(const store::LaunchRow& run, Launcher& launcher, Watch& watch, Ending ending) {
  spdlog::warn("run {} attempt {}: ending the attempt: {}", run.id, run.attempt, ending.cause);
  watch.ending = std::move(ending);
  parts_.store.write([&](store::Database& database) { store::fence_attempt(database, run.number, run.attempt); });
  fence_folder(run);
  launcher.kill(run.handle, false);
}

Supervisor::Ending Supervisor::classify_end(const store::LaunchRow& run, const Watch& watch,
                                            const ProcessStatus& status) const {
  if (run.outcome == store::Outcome::finished) return {now_, RunEvent::finished, run.outcome_detail, ""};
  if (watch.ending) return *watch.ending;
  // Preemption sends SIGTERM first, and ranks then stop as after a stop request.
  if (status.kind == ProcessStatus::Kind::preempted && run.state != RunState::stopping) {
    return {now_, RunEvent::preempted, status.detail, ""};
  }
  if (run.state == RunState::stopping || run.outcome == store::Outcome::stopped) {
    const std::string how = run.outcome_detail.empty() ? "all processes have ended" : run.outcome_detail;
    return {now_, RunEvent::ended_on_request, how, ""};
  }
  if (status.exit_code == 0) return {now_, RunEvent::finished, "exit code 0", ""};
  const std::string log = tail_of(launch_log_path(run.folder, run.attempt));
  const auto lost = find_lost_rank(log);
  return {now_, RunEvent::faulted, cause_of_end(run, status, lost, log), lost ? lost->host : ""};
}

void Supervisor::finish(const store::LaunchRow& row, const Profile& profile, const Watch& watch,
                        const ProcessStatus& status) {
  store::LaunchRow run = row;
  {
    // The last records may have arrived after `row` was read.
    auto reader = parts_.store.reader(store::Store::For::own);
    std::tie(run.outcome, run.outcome_detail) = store::find_outcome(*reader, run.number, run.attempt);
  }
  Ending end = classify_end(run, watch, status);
  const bool known = status.exit_code || watch.ending || run.outcome != store::Outcome::none || watch.started_here;
  if (end.event == RunEvent::faulted) {
    cool_down_.strike(blamed(profile, end.host), std::chrono::duration<double>(profile.cool_down_s), now_);
    const bool diverged = run.outcome == store::Outcome::failed && run.outcome_detail.starts_with(diverged_prefix);
    const bool hopeless = (status.exit_code == usage_exit_code || diverged) && !watch.ending;
    if (hopeless || run.restarts >= run.max_restarts) end.event = known ? RunEvent::gave_up : RunEvent::vanished;
  }
  fence_folder(run);
  const auto after = parts_.store.write([&](store::Database& database) {
    return store::end_attempt(database, {run.id, run.attempt, status.exit_code, end.event, end.cause, "supervisor"},
                              wall_time_ms());
  });
  spdlog::info("run {} attempt {}: {} ({})", run.id, run.attempt, after ? store::name_of(*after) : "over", end.cause);
  watches_.erase(run.id);
  parts_.heartbeats.forget(run.id);
  parts_.changed(run.id);
}

}  // namespace babelring::launch
