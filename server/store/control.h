#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/store/control_rows.h"
#include "server/store/readers.h"

/// Runs as the control plane sees them. Writes are made within Store::write(); `now_ms` is this server's wall clock.
/// Each throws SqlFailure.
namespace babelring::store {

/// A queued run at the end of its queue.
void create_run(Database& database, const NewRun& run, std::int64_t now_ms);

/// Carries an event out, writes its row of history, and returns the state the run is in then. Nothing, and no change,
/// if the run is unknown or the event has no meaning in its state.
std::optional<RunState> change_state(Database& database, const StateChange& change, std::int64_t now_ms);

/// A new attempt of a run that was queued, restarting or suspended: its number, or nothing if the run is no longer so.
std::optional<std::int64_t> begin_attempt(Database& database, const LaunchRow& run, const std::string& launcher,
                                          const std::string& resumed_from, const std::string& cause,
                                          std::int64_t now_ms);
/// Somebody started the run's folder again by hand: that attempt is the current one from now on. False, and no change,
/// if the run is unknown or the attempt is not newer than its current one.
bool note_newer_attempt(Database& database, const std::string& run, std::int64_t attempt, const std::string& host,
                        std::int64_t now_ms);
/// Where the attempt's launcher is.
void note_launcher(Database& database, std::int64_t run, std::int64_t attempt, const LauncherHandle& handle);
/// From now on heartbeats of the attempt are answered by "end".
void fence_attempt(Database& database, std::int64_t run, std::int64_t attempt);
/// The attempt is over: fenced, with its cause; a fault counts as a restart. Returns the run's new state, if the event
/// has a meaning for it.
std::optional<RunState> end_attempt(Database& database, const AttemptEnd& end, std::int64_t now_ms);

/// Asks a run to stop: "checkpoint" or "now". The new state, or nothing if it cannot be stopped.
std::optional<RunState> request_stop(Database& database, const std::string& run, const std::string& wish,
                                     std::int64_t grace_s, const std::string& actor, std::int64_t now_ms);

struct Resume {
  std::string run, actor;
  std::optional<std::int64_t> world_size;
  std::string folder;  // of the checkpoint to begin with; empty: the newest
  std::int64_t step = 0;
};
/// Queues the next attempt; later checkpoints than the one chosen count as removed. Nothing if the run is not over.
std::optional<RunState> request_resume(Database& database, const Resume& resume, std::int64_t now_ms);

/// Asks the current attempt for a checkpoint. The number of the wish.
std::int64_t request_checkpoint(Database& database, const std::string& run);

void edit_run(Database& database, const std::string& run, const RunEdit& edit, std::int64_t now_ms);
/// Marks a run as deleted; it is removed for good later.
void delete_run(Database& database, const std::string& run, bool checkpoints_too, std::int64_t now_ms);
/// Removes every row of a run.
void purge_run(Database& database, std::int64_t run);

/// Not over and not external, in the order of the queue.
std::vector<LaunchRow> active_launches(Reader& reader);
/// Runs whose current attempt was started by hand and that are stopping or lost; what only the server's own have is
/// empty or 0.
std::vector<LaunchRow> ending_externals(Reader& reader);
/// What the records of an attempt say of its end, and their detail; two empty texts if nothing.
std::pair<std::string, std::string> find_outcome(Reader& reader, std::int64_t run, std::int64_t attempt);
std::int64_t count_queued(Reader& reader);
std::optional<CommandRow> find_commands(Reader& reader, const std::string& run, std::int64_t attempt);
/// Oldest first, those after number `after`.
std::vector<TransitionRow> list_transitions(Reader& reader, std::int64_t run, std::int64_t after, std::int64_t limit);
/// Oldest first.
std::vector<AttemptRow> list_attempts(Reader& reader, std::int64_t run);
/// The folder of a run that the server started; empty for others.
std::string folder_of(Reader& reader, std::int64_t run);

/// A run that was deleted before `before_ms`.
struct DoomedRun {
  std::int64_t number = 0;
  std::string id, folder;
  bool checkpoints_too = false;
};
std::vector<DoomedRun> doomed_runs(Reader& reader, std::int64_t before_ms);

}  // namespace babelring::store
