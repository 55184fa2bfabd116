#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace babelring::store {

/// How a run stands. The last three are terminal: only a new attempt of the run leaves them.
enum class RunState {
  queued,      // waits for a place in its profile
  launching,   // its launcher was started; no rank has reported yet
  running,     // a rank of the current attempt has reported
  stopping,    // asked to stop
  restarting,  // an attempt was ended by a fault; the next one follows
  suspended,   // preempted by the scheduler; the next attempt goes on from the last checkpoint
  lost,        // neither its launcher can be found nor does a rank report
  succeeded,
  failed,
  stopped,
};

/// What may happen to a run.
enum class RunEvent {
  launch,            // the supervisor starts an attempt
  reported,          // a rank of the current attempt gave a sign of life
  finished,          // the attempt trained to its end
  ended_on_request,  // the attempt ended because it was told to
  faulted,           // the attempt was lost, another one follows
  gave_up,           // the attempt was lost, or could not be started, for good
  preempted,         // the scheduler took the machines away
  vanished,          // launcher and ranks cannot be found
  stop_requested,
  resume_requested,
  newer_attempt,  // somebody started the run's folder again by hand
};

/// The whole table of transitions: the state after `event`, the same one if the event changes nothing, or nothing if
/// it has no meaning in `state` and must be refused or ignored.
std::optional<RunState> next_state(RunState state, RunEvent event);

bool is_terminal(RunState state);
/// An attempt is there or on its way: launching, running, stopping.
bool has_attempt(RunState state);

std::string_view name_of(RunState state);
std::string_view name_of(RunEvent event);
/// The state of that name, if there is one.
std::optional<RunState> run_state_of(std::string_view name);
/// All of them, in the order of the enumeration.
const std::vector<RunState>& all_run_states();

}  // namespace babelring::store
