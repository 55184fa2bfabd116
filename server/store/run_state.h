#pragma once

#include <optional>
#include <string_view>
#include <vector>

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

}  // namespace babelring::store
