#include "server/store/run_state.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace babelring::store {
namespace {

using State = RunState;
using AfterEvents = std::array<std::optional<RunState>, 12>;  // in the order of RunEvent

constexpr std::array<AfterEvents, 10> table = [] {
  constexpr std::optional<State> no = std::nullopt;
  constexpr State lau = State::launching, run = State::running, sto = State::stopping, res = State::restarting,
                  sus = State::suspended, los = State::lost, suc = State::succeeded, fai = State::failed,
                  end = State::stopped, que = State::queued;
  // clang-format off
  return std::array<AfterEvents, 10>{{
      //             launch reported finished on request faulted gave_up preempted vanished stop  resume newer evaluation
      /* queued     */ {lau,  no,    no,      no,        no,     fai,    no,       no,      end,  no,    run,  que},
      /* launching  */ {no,   run,   suc,     end,       res,    fai,    sus,      los,     sto,  no,    run,  lau},
      /* running    */ {no,   run,   suc,     end,       res,    fai,    sus,      los,     sto,  no,    run,  run},
      /* stopping   */ {no,   sto,   suc,     end,       end,    end,    end,      los,     sto,  no,    run,  sto},
      /* restarting */ {lau,  no,    no,      no,        no,     fai,    no,       no,      end,  no,    run,  res},
      /* suspended  */ {lau,  no,    no,      no,        no,     fai,    no,       no,      end,  no,    run,  sus},
      /* lost       */ {no,   run,   suc,     end,       no,     fai,    no,       no,      end,  que,   run,  los},
      /* succeeded  */ {no,   no,    no,      no,        no,     no,     no,       no,      no,   que,   run,  suc},
      /* failed     */ {no,   no,    no,      no,        no,     no,     no,       no,      no,   que,   run,  fai},
      /* stopped    */ {no,   no,    no,      no,        no,     no,     no,       no,      no,   que,   run,  end},
  }};
  // clang-format on
}();

constexpr std::array<std::string_view, 10> state_names = {
    "queued", "launching", "running", "stopping", "restarting", "suspended", "lost", "succeeded", "failed", "stopped"};
constexpr std::array<std::string_view, 12> event_names = {
    "launch",   "reported",       "finished",         "ended",         "faulted",          "gave_up", "preempted",
    "vanished", "stop_requested", "resume_requested", "newer_attempt", "evaluation_failed"};
constexpr std::array<std::string_view, 3> stop_mode_names = {"", "checkpoint", "now"};
constexpr std::array<std::string_view, 4> outcome_names = {"", "finished", "stopped", "failed"};

/// The value with this name, or `otherwise`.
template <class Enum, std::size_t count>
Enum value_of(std::string_view name, const std::array<std::string_view, count>& names, Enum otherwise) {
  const auto found = std::find(names.begin(), names.end(), name);
  return found == names.end() ? otherwise : static_cast<Enum>(found - names.begin());
}

}  // namespace

std::optional<RunState> next_state(RunState state, RunEvent event) {
  return table[static_cast<std::size_t>(state)][static_cast<std::size_t>(event)];
}

bool is_terminal(RunState state) {
  return state == State::succeeded || state == State::failed || state == State::stopped;
}

bool has_attempt(RunState state) {
  return state == State::launching || state == State::running || state == State::stopping;
}

std::string_view name_of(RunState state) {
  return state_names[static_cast<std::size_t>(state)];
}

std::string_view name_of(RunEvent event) {
  return event_names[static_cast<std::size_t>(event)];
}

std::string_view name_of(StopMode mode) {
  return stop_mode_names[static_cast<std::size_t>(mode)];
}

std::string_view name_of(Outcome outcome) {
  return outcome_names[static_cast<std::size_t>(outcome)];
}

std::optional<RunState> run_state_of(std::string_view name) {
  for (const RunState state : all_run_states()) {
    if (name_of(state) == name) return state;
  }
  return std::nullopt;
}

void from_name(std::string_view name, RunState& state) {
  state = value_of(name, state_names, RunState::lost);
}

void from_name(std::string_view name, StopMode& mode) {
  mode = value_of(name, stop_mode_names, StopMode::none);
}

void from_name(std::string_view name, Outcome& outcome) {
  outcome = value_of(name, outcome_names, Outcome::none);
}

const std::vector<RunState>& all_run_states() {
  static const std::vector<RunState> states = {State::queued,     State::launching, State::running, State::stopping,
                                               State::restarting, State::suspended, State::lost,    State::succeeded,
                                               State::failed,     State::stopped};
  return states;
}

}  // namespace babelring::store
