#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/store/control_rows.h"
#include "server/store/readers.h"

/// Runs as the control plane sees them. Functions with a Database& are called within Store::write(); `now_ms` is this
/// server's wall clock. All throw SqlFailure.
namespace babelring::store {

/// Creates a run at the end of the queue.
void create_run(Database& database, const NewRun& run, std::int64_t now_ms);

/// Applies an event and records the transition. Returns the resulting state, or nothing, with nothing changed, if the
/// run is unknown or the event is not allowed in its state.
std::optional<RunState> change_state(Database& database, const StateChange& change, std::int64_t now_ms);

/// Begins a new attempt of a queued, restarting or suspended run. Returns its number; nothing if the run is in another
/// state by now.
std::optional<std::int64_t> begin_attempt(Database& database, const LaunchRow& run, const std::string& launcher,
                                          const std::string& resumed_from, const std::string& cause,
                                          std::int64_t now_ms);
/// Makes an attempt that somebody started by hand in the run's folder the current one; refuse_place() says first
/// whether it may be. False, with nothing changed, if the run is unknown or the attempt is not newer than its current
/// one.
bool note_newer_attempt(Database& database, const std::string& run, std::int64_t attempt, const std::string& host,
                        std::int64_t now_ms);
/// Records where the attempt's launcher is.
void note_launcher(Database& database, std::int64_t run, std::int64_t attempt, const LauncherHandle& handle);
/// From now on the attempt is refused as stale.
void fence_attempt(Database& database, std::int64_t run, std::int64_t attempt);
/// Ends and fences an attempt; a fault that leads to another attempt counts as a restart. Returns the run's state after
/// that, or nothing if the event is not allowed in its state.
std::optional<RunState> end_attempt(Database& database, const AttemptEnd& end, std::int64_t now_ms);

/// Asks a run to stop: `wish` is "checkpoint" or "now". Returns the new state, or nothing if it cannot be stopped.
std::optional<RunState> request_stop(Database& database, const std::string& run, const std::string& wish,
                                     std::int64_t grace_s, const std::string& actor, std::int64_t now_ms);

struct Resume {
  std::string run, actor;
  std::optional<std::int64_t> world_size;
  std::string folder;  // of the checkpoint to resume from; empty: the newest
  std::int64_t step = 0;
};
/// Queues the next attempt; checkpoints later than the chosen one count as removed. Nothing if the run is not over.
std::optional<RunState> request_resume(Database& database, const Resume& resume, std::int64_t now_ms);

/// Asks the current attempt for a checkpoint. Returns the number of the request.
std::int64_t request_checkpoint(Database& database, const std::string& run);

void edit_run(Database& database, const std::string& run, const RunEdit& edit, std::int64_t now_ms);
/// Marks a run as deleted; purge_run() removes it for good later.
void delete_run(Database& database, const std::string& run, bool checkpoints_too, std::int64_t now_ms);
/// Deletes every row of a run, its alerts included.
void purge_run(Database& database, std::int64_t run);

/// Runs that are not over and that the server started, in the order of the queue.
std::vector<LaunchRow> active_launches(Reader& reader);
/// Stopping or lost runs whose current attempt was started by hand. Members that only the server's own runs have are
/// empty or 0.
std::vector<LaunchRow> ending_externals(Reader& reader);
/// The outcome that an attempt's own records report, and its detail; both empty if there is none.
std::pair<std::string, std::string> find_outcome(Reader& reader, std::int64_t run, std::int64_t attempt);
std::int64_t count_queued(Reader& reader);
std::optional<CommandRow> find_commands(Database& database, const std::string& run, std::int64_t attempt);
/// Oldest first, those after number `after`; at most `limit`.
std::vector<TransitionRow> list_transitions(Reader& reader, std::int64_t run, std::int64_t after, std::int64_t limit);
/// Oldest first.
std::vector<AttemptRow> list_attempts(Reader& reader, std::int64_t run);
/// The folder of a run that the server started; empty for others.
std::string folder_of(Reader& reader, std::int64_t run);

/// A deleted run that is to be purged.
struct DoomedRun {
  std::int64_t number = 0;
  std::string id, folder;
  bool checkpoints_too = false;
};
/// Those deleted before `before_ms`; at most 100.
std::vector<DoomedRun> doomed_runs(Reader& reader, std::int64_t before_ms);

}  // namespace babelring::store
