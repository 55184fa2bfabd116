#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "server/store/run_state.h"

namespace babelring::store {

/// A request to start a run.
struct NewRun {
  std::string id, name, profile, folder;
  std::string config;  // YAML, resolved
  std::string labels = "{}", notes;
  std::int64_t world_size = 1, max_restarts = 0;
  std::string resume_folder;  // checkpoint to start from; empty: start from scratch
  std::int64_t resume_step = 0;
  std::string actor;
};

/// An event to apply to a run.
struct StateChange {
  std::string run;  // id
  RunEvent event;
  std::string cause, actor;
};

/// Identifies an attempt's launcher process or Slurm job.
struct LauncherHandle {
  std::int64_t pid = 0, start_ticks = 0;  // mpirun; the start time from /proc/PID/stat detects a reused pid
  std::string job;                        // Slurm job id
};

/// An unfinished run with its current attempt.
struct LaunchRow {
  std::int64_t number = 0;
  std::string id, name, profile, folder, config;
  RunState state = RunState::queued;
  std::int64_t attempt = 0, world_size = 0, max_restarts = 0, restarts = 0;
  std::string resume_folder;
  std::int64_t resume_step = 0, place = 0;
  StopMode stop_mode = StopMode::none;
  std::int64_t stop_grace_s = 0;
  std::string launcher;  // of the attempt; empty before the first, "external" if started by a user
  LauncherHandle handle;
  Outcome outcome = Outcome::none;
  std::string outcome_detail;
  std::int64_t newest_checkpoint_step = 0;  // removed checkpoints excluded
};

/// The end of an attempt, as observed by the supervisor.
struct AttemptEnd {
  std::string run;
  std::int64_t attempt = 0;
  std::optional<std::int64_t> exit_code;
  RunEvent event;
  std::string cause, actor;
};

struct AttemptRow {
  std::int64_t attempt = 0;
  std::string launcher, job, resumed_from, cause;
  std::int64_t pid = 0, world_size = 0, started_ms = 0;
  std::optional<std::int64_t> ended_ms, exit_code;
};

struct TransitionRow {
  std::int64_t number = 0, attempt = 0, time_ms = 0;
  std::string old_state, new_state, event, cause, actor;
};

/// The facts about a run that decide whether a report of one attempt is accepted.
struct ReportedRun {
  std::int64_t number = 0, attempt = 0;
  RunState state = RunState::running;
  std::int64_t created_ms = 0;
  std::string name;
  std::string begun_by;    // id of the token that first reported it; empty: unknown, or created by the server
  bool managed = false;    // started by the server, and no user has started a newer attempt
  std::int64_t ranks = 0;  // of the attempt in question; 0: unknown
};

/// The facts that decide the response to a heartbeat.
struct CommandRow : ReportedRun {
  bool fenced = false;  // the attempt in question must end
  StopMode stop_mode = StopMode::none;
  std::int64_t checkpoints_requested = 0;  // in the current attempt
};

/// Changes made by a user. Absent members stay unchanged.
struct RunEdit {
  std::optional<std::string> name, labels, notes;
  std::optional<bool> archived, deleted;
  std::optional<std::int64_t> max_restarts;
};

}  // namespace babelring::store
