#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/store/attempts.h"
#include "server/store/readers.h"

namespace babelring::store {

// State of runs for the control plane. Call functions that take a Database& inside Store::write(). `now_ms` is the
// server's wall clock. All functions throw SqlFailure.

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
  std::optional<std::int64_t> ended_ms = {};  // if it ends the run: when, by the clock of records; absent: at `at_ms`
};

/// Changes made by a user. Absent members stay unchanged.
struct RunEdit {
  std::optional<std::string> name, labels, notes;
  std::optional<bool> archived, deleted;
  std::optional<std::int64_t> max_restarts;
};

struct TransitionRow {
  std::int64_t number = 0, attempt = 0, time_ms = 0;
  std::string old_state, new_state, event, cause, actor;
};

/// The state of a run, for the functions that change it.
struct RunStanding {
  std::int64_t number = 0, attempt = 0;
  RunState state = RunState::running;
  bool asked_to_stop = false;
};
std::optional<RunStanding> find_standing(Database& database, const std::string& run);

/// Creates a run at the end of the queue.
void create_run(Database& database, const NewRun& run, std::int64_t now_ms);

/// Applies an event and records the transition, or the event `evaluation_failed`, which changes no state. Returns the
/// resulting state. Returns nothing, and changes nothing, if the run is unknown or its state does not allow the event.
/// `at_ms`: when it happened, which may be long ago. A run does not finish before it started, and a transition is not
/// recorded before the previous one.
std::optional<RunState> change_state(Database& database, const StateChange& change, std::int64_t at_ms);

/// Requests a stop. `mode` must not be `none`. Returns the new state, or nothing if the run cannot be stopped.
std::optional<RunState> request_stop(Database& database, const std::string& run, StopMode mode, std::int64_t grace_s,
                                     const std::string& actor, std::int64_t now_ms);

struct Resume {
  std::string run, actor;
  std::optional<std::int64_t> world_size;
  std::string folder;  // checkpoint to resume from; empty: the newest
  std::int64_t step = 0;
};
/// Queues the next attempt of a finished run. Marks checkpoints later than the chosen one as removed. Returns nothing
/// if the run is not finished.
std::optional<RunState> request_resume(Database& database, const Resume& resume, std::int64_t now_ms);

/// Requests a checkpoint from the current attempt. Returns the request number.
std::int64_t request_checkpoint(Database& database, const std::string& run);

void edit_run(Database& database, const std::string& run, const RunEdit& edit, std::int64_t now_ms);
/// Marks a run as deleted. purge_run() removes it permanently later.
void delete_run(Database& database, const std::string& run, bool checkpoints_too, std::int64_t now_ms);
/// Deletes all rows of a run, including its alerts.
void purge_run(Database& database, std::int64_t run);

std::int64_t count_queued(Reader& reader);

/// Up to `limit` transitions with a number above `after`, oldest first.
std::vector<TransitionRow> list_transitions(Reader& reader, std::int64_t run, std::int64_t after, std::int64_t limit);

/// A deleted run due for purging.
struct RunToPurge {
  std::int64_t number = 0;
  std::string id, folder;
  bool checkpoints_too = false;
};
/// Up to 100 runs deleted before `before_ms`.
std::vector<RunToPurge> runs_to_purge(Reader& reader, std::int64_t before_ms);

// Requests for timelines of running runs. All functions throw SqlFailure.

struct TraceRequestRow {
  std::int64_t number = 0;  // from 1 in each attempt; 0: none
  std::int64_t updates = 0;
  bool ops = true;
};

/// The newest request to the run's current attempt; number 0 if there is none.
TraceRequestRow find_trace_request(Reader& reader, std::int64_t run);

/// Requests a trace of `updates` updates from the current attempt. `done`: the newest request that the attempt has
/// executed. Returns the number of the request, or nothing if an earlier one is not executed yet.
std::optional<std::int64_t> request_trace(Database& database, std::int64_t run, const TraceRequestRow& request,
                                          std::int64_t done);

}  // namespace babelring::store
