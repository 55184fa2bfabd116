#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace babelring::store {

/// The state of a run. The last three are terminal: only a new attempt leaves them.
enum class RunState {
  queued,      // waiting for a slot in its profile
  launching,   // its launcher was started; no rank has reported yet
  running,     // a rank of the current attempt has reported
  stopping,    // asked to stop
  restarting,  // a fault has ended an attempt; another one follows
  suspended,   // preempted by the scheduler; the next attempt continues from the last checkpoint
  lost,        // its launcher cannot be found and no rank reports
  succeeded,
  failed,
  stopped,
};

/// An event in the life of a run.
enum class RunEvent {
  launch,            // the supervisor starts an attempt
  reported,          // a rank of the current attempt has reported
  finished,          // the attempt has completed its training
  ended_on_request,  // the attempt ended because it was told to
  faulted,           // the attempt failed, and another one follows
  gave_up,           // the attempt failed or could not be started, and none follows
  preempted,         // the scheduler preempted the job
  vanished,          // launcher and ranks cannot be found
  stop_requested,
  resume_requested,
  newer_attempt,  // somebody started another attempt by hand in the run's folder
};

/// The table of transitions: the state after `event`, which may be the same one; nothing if the event is not allowed in
/// `state` and must be refused or ignored.
std::optional<RunState> next_state(RunState state, RunEvent event);

bool is_terminal(RunState state);
/// Whether an attempt exists or is being started: launching, running, stopping.
bool has_attempt(RunState state);

std::string_view name_of(RunState state);
std::string_view name_of(RunEvent event);
/// The state of that name, if there is one.
std::optional<RunState> run_state_of(std::string_view name);
/// All states, in the order of the enumeration.
const std::vector<RunState>& all_run_states();

}  // namespace babelring::store
