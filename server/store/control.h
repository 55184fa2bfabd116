#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/store/control_rows.h"
#include "server/store/readers.h"

/// State of runs for the control plane. Call functions that take a Database& inside Store::write(). `now_ms` is the
/// server's wall clock. All functions throw SqlFailure.
namespace babelring::store {

/// Creates a run at the end of the queue.
void create_run(Database& database, const NewRun& run, std::int64_t now_ms);

/// Applies an event and records the transition. Returns the resulting state. Returns nothing, and changes nothing, if
/// the run is unknown or its state does not allow the event.
std::optional<RunState> change_state(Database& database, const StateChange& change, std::int64_t now_ms);

/// Starts a new attempt of a queued, restarting or suspended run. Returns its number, or nothing if the run is in
/// another state.
std::optional<std::int64_t> begin_attempt(Database& database, const LaunchRow& run, const std::string& launcher,
                                          const std::string& resumed_from, const std::string& cause,
                                          std::int64_t now_ms);
/// Makes a newer attempt that a user started in the run's folder the current one. Call refuse_place() first. Returns
/// false, and changes nothing, if the run is unknown or the attempt is not newer than the current one.
bool record_newer_attempt(Database& database, const std::string& run, std::int64_t attempt, const std::string& host,
                          std::int64_t now_ms);
/// Stores the handle of the attempt's launcher.
void record_launcher(Database& database, std::int64_t run, std::int64_t attempt, const LauncherHandle& handle);
/// Fences the attempt: its reports are refused as stale from now on.
void fence_attempt(Database& database, std::int64_t run, std::int64_t attempt);
/// Ends and fences an attempt. A fault followed by another attempt counts as a restart. Returns the run's new state, or
/// nothing if its state does not allow the event.
std::optional<RunState> end_attempt(Database& database, const AttemptEnd& end, std::int64_t now_ms);

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

/// Unfinished runs started by the server, in queue order.
std::vector<LaunchRow> active_launches(Reader& reader);
/// Stopping or lost runs with a current attempt that a user started. Members that apply only to runs started by the
/// server are empty or 0.
std::vector<LaunchRow> ending_externals(Reader& reader);
/// The outcome that the ranks of the attempt have reported, and its detail.
std::pair<Outcome, std::string> find_outcome(Reader& reader, std::int64_t run, std::int64_t attempt);
std::int64_t count_queued(Reader& reader);
std::optional<CommandRow> find_commands(Database& database, const std::string& run, std::int64_t attempt);
/// Up to `limit` transitions with a number above `after`, oldest first.
std::vector<TransitionRow> list_transitions(Reader& reader, std::int64_t run, std::int64_t after, std::int64_t limit);
/// Oldest first.
std::vector<AttemptRow> list_attempts(Reader& reader, std::int64_t run);
/// The run's folder if the server started it; otherwise empty.
std::string folder_of(Reader& reader, std::int64_t run);

/// A deleted run due for purging.
struct RunToPurge {
  std::int64_t number = 0;
  std::string id, folder;
  bool checkpoints_too = false;
};
/// Up to 100 runs deleted before `before_ms`.
std::vector<RunToPurge> runs_to_purge(Reader& reader, std::int64_t before_ms);

}  // namespace babelring::store
