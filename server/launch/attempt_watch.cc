#include "server/launch/attempt_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/log.h"
#include "base/open_mpi.h"
#include "base/records/records.h"
#include "base/records/run_marks.h"
#include "server/launch/launcher.h"

namespace babelring::launch {
namespace {

using store::RunEvent;

constexpr double deaf_factor = 4;       // longer timeout if all ranks are silent: the network may have failed
constexpr double unreached_stop_s = 3;  // grace for ranks that have not reported: the stop request cannot reach them

double seconds_between(SteadyClock::time_point from, SteadyClock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

/// The launcher's log of an attempt, with the lost rank, the lost host and the failed start that it names.
struct Trace {
  std::string log, lost_host;
  std::optional<open_mpi::LostRank> rank;
  std::optional<open_mpi::StartFailure> start;

  explicit Trace(const store::LaunchRow& run)
      : log(tail_of(launch_log_path(run.folder, run.attempt))),
        lost_host(open_mpi::find_lost_host(log)),
        rank(open_mpi::find_lost_rank(log)),
        start(open_mpi::find_start_failure(log)) {
    if (!rank) rank = open_mpi::find_disconnected_rank(log);
  }

  std::string host() const {
    if (rank) return rank->host;
    return start && !start->host.empty() ? start->host : lost_host;
  }
};

/// The cause of an attempt's unexpected end; empty if nothing tells it.
std::string cause_of_end(const store::LaunchRow& run, const ProcessStatus& status, const Trace& trace) {
  const auto& lost = trace.rank;
  if (lost && lost->how != "ended") return fmt::format("rank {} on {} was {}", lost->rank, lost->host, lost->how);
  if (run.outcome == store::Outcome::failed && !run.outcome_detail.empty()) return run.outcome_detail;
  if (std::string line = last_error_line(trace.log); !line.empty()) return line;
  if (trace.start) return trace.start->cause;
  if (!trace.lost_host.empty()) return "mpirun lost " + trace.lost_host;
  if (!status.detail.empty()) return status.detail;
  constexpr std::int64_t last_signal = 64;  // 255 is ssh's or mpirun's own code
  if (status.exit_code && *status.exit_code > 128 && *status.exit_code <= 128 + last_signal) {
    return fmt::format("{} was killed by signal {}", run.launcher, *status.exit_code - 128);
  }
  if (status.exit_code == 0)
    return run.launcher + " ended with exit code 0, but rank 0 did not say that training ended";
  if (status.exit_code) return fmt::format("{} ended with exit code {}", run.launcher, *status.exit_code);
  return "";
}

/// The run with the end that rank 0 noted in run.json, if its record has not come.
store::LaunchRow with_noted_end(store::LaunchRow run) {
  if (run.outcome != store::Outcome::none) return run;
  try {
    const auto noted = read_run_file(run.folder);
    if (!noted || noted->run != run.id || noted->attempt != run.attempt) return run;
    for (const auto outcome : {store::Outcome::finished, store::Outcome::stopped, store::Outcome::failed}) {
      if (noted->end != store::name_of(outcome)) continue;
      run.outcome = outcome;
      run.outcome_detail = printable(noted->detail);
    }
  } catch (const Failure&) {
    return run;  // unreadable: it says nothing
  }
  return run;
}

/// The ending of an attempt that ended together with the last server; nothing if it may have ended by itself.
std::optional<Ending> end_of_absence(const store::LaunchRow& run, const ProcessStatus& status, Absence absence,
                                     bool has_trace) {
  if (absence == Absence::none || status.exit_code || run.state == store::RunState::stopping) return std::nullopt;
  if (run.outcome == store::Outcome::stopped) return Ending{RunEvent::preempted, "it was stopped with the server", ""};
  const bool diverged = run.outcome == store::Outcome::failed && run.outcome_detail.starts_with(diverged_prefix);
  if (absence == Absence::world && !diverged) {
    return Ending{RunEvent::preempted, "it ended with the machine or the container of the server", ""};
  }
  return has_trace ? std::nullopt
                   : std::optional(Ending{RunEvent::preempted, "it ended while the server was away", ""});
}

}  // namespace

bool heard_within(const std::vector<ReceivedHeartbeat>& beats, std::chrono::seconds age, const WatchTimes& times) {
  const auto since = times.heard_until - age;
  return std::any_of(beats.begin(), beats.end(), [&](const ReceivedHeartbeat& beat) { return beat.at > since; });
}

double AttemptWatch::silence_s(const ReceivedHeartbeat& beat, const WatchTimes& times) const {
  return seconds_between(std::max({beat.at, times.awake_since, since_}), times.heard_until);
}

double AttemptWatch::watched_s(const WatchTimes& times) const {
  return seconds_between(std::max(since_, times.awake_since), times.heard_until);
}

std::optional<Ending> AttemptWatch::find_fault(const Profile& profile, std::int64_t world_size, const Beats& beats,
                                               const WatchTimes& times) const {
  const auto fault = [](std::string cause, std::string host, std::optional<std::int64_t> rank = std::nullopt) {
    return Ending{RunEvent::faulted, std::move(cause), std::move(host), rank};
  };
  const ReceivedHeartbeat* quietest = nullptr;
  std::set<std::int64_t> heard;
  double shortest = 1e300, newest_update = 1e300;
  for (const ReceivedHeartbeat& beat : beats) {
    heard.insert(beat.beat.rank);
    if (quietest == nullptr || beat.at < quietest->at) quietest = &beat;
    shortest = std::min(shortest, silence_s(beat, times));
    newest_update = std::min(newest_update, beat.beat.since_update_s + silence_s(beat, times));
  }
  if (watched_s(times) > profile.launch_timeout_s) {
    for (std::int64_t rank = 0; rank < world_size; ++rank) {
      if (heard.contains(rank)) continue;
      return fault(fmt::format("rank {} did not report within {} s", rank, profile.launch_timeout_s), "");
    }
  }
  if (quietest == nullptr) return std::nullopt;
  const double silence = silence_s(*quietest, times);
  const bool all_silent = shortest > profile.heartbeat_timeout_s;
  if (silence > profile.heartbeat_timeout_s * (all_silent ? deaf_factor : 1)) {
    return fault(
        fmt::format("rank {} on {} sent no heartbeat for {:.1f} s", quietest->beat.rank, quietest->beat.host, silence),
        quietest->beat.host, quietest->beat.rank);
  }
  const bool complete = static_cast<std::int64_t>(heard.size()) >= world_size;
  if (profile.stall_timeout_s > 0 && complete && newest_update > profile.stall_timeout_s) {
    return fault(fmt::format("no update for {:.0f} s although all ranks report", newest_update), "");
  }
  return std::nullopt;
}

double AttemptWatch::stopping_s(Time now) {
  if (!stopping_since_) stopping_since_ = now;
  return seconds_between(*stopping_since_, now);
}

std::optional<Ending> AttemptWatch::stop_overdue(const store::LaunchRow& run, const Beats& beats, Time now) {
  const double waited = stopping_s(now);
  if (run.stop_mode == store::StopMode::now || (beats.empty() && waited > unreached_stop_s)) {
    return Ending{RunEvent::ended_on_request, "stopped immediately", ""};
  }
  if (waited > static_cast<double>(run.stop_grace_s)) {
    return Ending{RunEvent::ended_on_request, fmt::format("did not stop within {} s", run.stop_grace_s), ""};
  }
  return std::nullopt;
}

bool AttemptWatch::may_look_for_hosts(std::int64_t newest_checkpoint) {
  newest_ = newest_checkpoint;
  if (!looked_at_) looked_at_ = newest_checkpoint;
  return newest_checkpoint > *looked_at_;
}

void AttemptWatch::begin_suspending(std::string cause, Time now) {
  suspending_since_ = now;
  ending_ = {RunEvent::preempted, std::move(cause), ""};
}

std::optional<Ending> AttemptWatch::suspending_overdue(Time now, std::chrono::seconds grace) const {
  return is_suspending() && now - *suspending_since_ > grace ? std::optional(ending_) : std::nullopt;
}

bool AttemptWatch::is_lost_unseen(const Beats& beats, const WatchTimes& times) {
  if (!unseen_since_) unseen_since_ = times.now;
  return !heard_within(beats, lost_after, times) && times.now - *unseen_since_ > lost_after;
}

bool AttemptWatch::is_lost_silent(const Beats& beats, const WatchTimes& times) const {
  return !heard_within(beats, lost_after, times) &&
         watched_s(times) >= std::chrono::duration<double>(lost_after).count();
}

Ending classify_end(const store::LaunchRow& known, const Ending* decided, const ProcessStatus& status,
                    Absence absence) {
  const store::LaunchRow run = with_noted_end(known);
  if (run.outcome == store::Outcome::finished) return {RunEvent::finished, run.outcome_detail, ""};
  if (decided != nullptr) return *decided;
  // Preemption sends SIGTERM first, and ranks then stop as after a stop request.
  if (status.kind == ProcessStatus::Kind::preempted && run.state != store::RunState::stopping) {
    return {RunEvent::preempted, status.detail, ""};
  }
  const Trace trace(run);
  const std::string cause = cause_of_end(run, status, trace);
  if (auto end = end_of_absence(run, status, absence, !cause.empty())) return std::move(*end);
  // Slurm ends a job with SIGTERM when its node is lost or its time is over, and mpirun its ranks when it has lost a
  // host: nobody asked the run to stop, although its ranks may all have saved.
  const bool asked = run.outcome == store::Outcome::stopped && status.cause != ProcessStatus::Cause::revoked &&
                     trace.lost_host.empty();
  if (run.state == store::RunState::stopping || asked) {
    const std::string how = run.outcome_detail.empty() ? "all processes have ended" : run.outcome_detail;
    return {RunEvent::ended_on_request, how, ""};
  }
  const std::string unknown = run.launcher + " ended while no server was running; its exit code is unknown";
  return {RunEvent::faulted, cause.empty() ? unknown : cause, trace.host(),
          trace.rank ? std::optional(trace.rank->rank) : std::nullopt};
}

}  // namespace babelring::launch
