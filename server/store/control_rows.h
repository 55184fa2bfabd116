#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "server/store/run_state.h"

namespace babelring::store {

/// A run that the server is asked to start.
struct NewRun {
  std::string id, name, profile, folder;
  std::string config;  // YAML, resolved
  std::string labels = "{}", notes;
  std::int64_t world_size = 1, max_restarts = 0;
  std::string resume_folder;  // of a checkpoint to start from; empty: from scratch
  std::int64_t resume_step = 0;
  std::string actor;
};

/// An event in the life of a run.
struct StateChange {
  std::string run;  // id
  RunEvent event;
  std::string cause, actor;
};

/// Where the processes of an attempt are.
struct LauncherHandle {
  std::int64_t pid = 0, start_ticks = 0;  // of mpirun; the start time in /proc/PID/stat reveals a reused pid
  std::string job;                        // of Slurm
};

/// A run that is not over, with its current attempt.
struct LaunchRow {
  std::int64_t number = 0;
  std::string id, name, profile, folder, config;
  RunState state = RunState::queued;
  std::int64_t attempt = 0, world_size = 0, max_restarts = 0, restarts = 0;
  std::string resume_folder;
  std::int64_t resume_step = 0, place = 0;
  std::string stop_wish;
  std::int64_t stop_grace_s = 0;
  std::string launcher;  // of the attempt; empty before the first, "external" if started by hand
  LauncherHandle handle;
  std::string outcome, outcome_detail;
  std::int64_t newest_checkpoint_step = 0;  // of those that are not removed
};

/// The end of an attempt, as the supervisor saw it.
struct AttemptEnd {
  std::string run;
  std::int64_t attempt = 0;
  std::optional<std::int64_t> exit_code;
  RunEvent event;
  std::string cause, actor;
};

struct AttemptRow {
  std::int64_t attempt = 0;
  std::string launcher, job, resumed_from, cause, outcome;
  std::int64_t pid = 0, world_size = 0, started_ms = 0;
  std::optional<std::int64_t> ended_ms, exit_code;
};

struct TransitionRow {
  std::int64_t number = 0, attempt = 0, time_ms = 0;
  std::string old_state, new_state, event, cause, actor;
};

/// A run as far as it decides which reports of one attempt are taken.
struct ReportedRun {
  std::int64_t number = 0, attempt = 0;
  RunState state = RunState::running;
  std::int64_t created_ms = 0;
  std::string name;
  std::string begun_by;    // id of the token that reported it first; empty: not known, or the server created it
  bool managed = false;    // the server started it, and nobody has started a newer attempt by hand
  std::int64_t ranks = 0;  // of the attempt asked about; 0: not known
};

/// What the answer to a heartbeat depends on.
struct CommandRow : ReportedRun {
  bool fenced = false;  // the attempt asked about must end
  std::string stop_wish;
  std::int64_t checkpoint_wish = 0;
};

/// Changes made by a user; absent members stay as they are.
struct RunEdit {
  std::optional<std::string> name, labels, notes;
  std::optional<bool> archived, deleted;
  std::optional<std::int64_t> max_restarts;
};

}  // namespace babelring::store
