#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/store/readers.h"

namespace babelring::store {

/// The state of a run. The last three states are terminal: only a new attempt leaves them.
enum class RunState {
  queued,      // waiting for a slot in its profile
  launching,   // the launcher has started; no rank has reported yet
  running,     // a rank of the current attempt has reported
  stopping,    // asked to stop
  restarting,  // a fault ended an attempt; another attempt follows
  suspended,   // preempted; the next attempt continues from the last checkpoint
  lost,        // the launcher cannot be found and no rank reports
  succeeded,
  failed,
  stopped,
};

/// An event that may change a run's state.
enum class RunEvent {
  launch,            // the supervisor starts an attempt
  reported,          // a rank of the current attempt has reported
  finished,          // the attempt has completed its training
  ended_on_request,  // the attempt ended after a stop request
  faulted,           // the attempt failed; another attempt follows
  gave_up,           // the attempt failed or could not be started; no attempt follows
  preempted,         // the scheduler preempted the job, or the supervisor ended it to start it with more ranks
  vanished,          // launcher and ranks cannot be found
  stop_requested,
  resume_requested,
  newer_attempt,      // a user started another attempt in the run's folder
  evaluation_failed,  // the job beside the run failed; changes no state
};

/// The transition table. Returns the state after `event`, which may equal `state`, or nothing if `state` does not allow
/// the event.
std::optional<RunState> next_state(RunState state, RunEvent event);

bool is_terminal(RunState state);
/// True if an attempt exists or is being started: launching, running or stopping.
bool has_attempt(RunState state);

/// How a run that is being stopped ends: after a checkpoint, or immediately.
enum class StopMode { none, checkpoint, now };

/// The end that the ranks of an attempt have reported.
enum class Outcome { none, finished, stopped, failed };

/// The names in the database and in JSON. `none` has the empty name.
std::string_view name_of(RunState state);
std::string_view name_of(RunEvent event);
std::string_view name_of(StopMode mode);
std::string_view name_of(Outcome outcome);
/// The state with this name, or nothing.
std::optional<RunState> run_state_of(std::string_view name);
/// Sets the value with this name. An unknown name gives `lost` or `none`.
void from_name(std::string_view name, RunState& state);
void from_name(std::string_view name, StopMode& mode);
void from_name(std::string_view name, Outcome& outcome);
/// All states in declaration order.
const std::vector<RunState>& all_run_states();

// Attempts of runs and their launchers. Call functions that take a Database& inside Store::write(). `now_ms` is the
// server's wall clock. All functions throw SqlFailure.

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
  std::int64_t attempt_ranks = 0;  // of the attempt, which may have fewer than world_size; 0: none or unknown
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
  std::optional<std::int64_t> first_update;  // of rank 0; nothing before it
};

/// The last minute of an attempt.
struct BlackBoxRow {
  std::int64_t attempt = 0, until_ms = 0;  // newest sample, by the server's clock
  std::string content;                     // JSON, as launch::to_json() makes it
};

/// Starts a new attempt, with run.world_size ranks, of a queued, restarting or suspended run. Returns its number, or
/// nothing if the run is in another state.
std::optional<std::int64_t> begin_attempt(Database& database, const LaunchRow& run, const std::string& launcher,
                                          const std::string& resumed_from, const std::string& cause,
                                          std::int64_t now_ms);
/// The server's `now_ms` on the clock of rank 0's records: the newest one's own time and for how long it has been here.
/// `now_ms` itself before the first one.
std::int64_t on_clock_of_records(Database& database, std::int64_t run, std::int64_t attempt, std::int64_t now_ms);
/// Makes a newer attempt that a user started in the run's folder the current one. Call refuse_place() first. Returns
/// false, and changes nothing, if the run is unknown or the attempt is not newer than the current one. `at_ms`: when it
/// began, as far as known.
bool record_newer_attempt(Database& database, const std::string& run, std::int64_t attempt, const std::string& host,
                          std::int64_t at_ms);
/// Stores the handle of the attempt's launcher.
void record_launcher(Database& database, std::int64_t run, std::int64_t attempt, const LauncherHandle& handle);
/// Fences the attempt: its reports are refused as stale from now on.
void fence_attempt(Database& database, std::int64_t run, std::int64_t attempt);
/// Ends and fences an attempt, now or when its ranks have reported its outcome. A fault followed by another attempt
/// counts as a restart. Returns the run's new state, or nothing if its state does not allow the event.
std::optional<RunState> end_attempt(Database& database, const AttemptEnd& end, std::int64_t now_ms);
/// Stores the last minute of an attempt in place of an earlier one, and removes those of all but the run's newest
/// max_black_boxes attempts. Does nothing if the run is unknown.
void put_black_box(Database& database, const std::string& run, const BlackBoxRow& box);
inline constexpr std::int64_t max_black_boxes = 20;

/// Unfinished runs started by the server, in queue order.
std::vector<LaunchRow> active_launches(Reader& reader);
/// Stopping or lost runs with a current attempt that a user started. Members that apply only to runs started by the
/// server are empty or 0.
std::vector<LaunchRow> ending_externals(Reader& reader);
/// The outcome that the ranks of the attempt have reported, and its detail.
std::pair<Outcome, std::string> find_outcome(Reader& reader, std::int64_t run, std::int64_t attempt);
/// Oldest first.
std::vector<AttemptRow> list_attempts(Reader& reader, std::int64_t run);
/// Newest attempt first.
std::vector<BlackBoxRow> list_black_boxes(Reader& reader, std::int64_t run);
/// True if rank 0 has reported an update of this attempt.
bool has_steps(Reader& reader, std::int64_t run, std::int64_t attempt);
/// The run's folder if the server started it; otherwise empty.
std::string folder_of(Reader& reader, std::int64_t run);

}  // namespace babelring::store
