#include "server/store/attempts.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace babelring::store {
namespace {

using enum RunEvent;

const std::vector<RunEvent> all_events = {launch,    reported, finished,       ended_on_request, faulted,      gave_up,
                                          preempted, vanished, stop_requested, resume_requested, newer_attempt};

/// The states in words, as service.md tells the story; "-" where an event means nothing.
const std::map<std::string, std::vector<std::string>> expected = {
    {"queued", {"launching", "-", "-", "-", "-", "failed", "-", "-", "stopped", "-", "running"}},
    {"launching",
     {"-", "running", "succeeded", "stopped", "restarting", "failed", "suspended", "lost", "stopping", "-", "running"}},
    {"running",
     {"-", "running", "succeeded", "stopped", "restarting", "failed", "suspended", "lost", "stopping", "-", "running"}},
    {"stopping",
     {"-", "stopping", "succeeded", "stopped", "stopped", "stopped", "stopped", "lost", "stopping", "-", "running"}},
    {"restarting", {"launching", "-", "-", "-", "-", "failed", "-", "-", "stopped", "-", "running"}},
    {"suspended", {"launching", "-", "-", "-", "-", "failed", "-", "-", "stopped", "-", "running"}},
    {"lost", {"-", "running", "succeeded", "stopped", "-", "failed", "-", "-", "stopped", "queued", "running"}},
    {"succeeded", {"-", "-", "-", "-", "-", "-", "-", "-", "-", "queued", "running"}},
    {"failed", {"-", "-", "-", "-", "-", "-", "-", "-", "-", "queued", "running"}},
    {"stopped", {"-", "-", "-", "-", "-", "-", "-", "-", "-", "queued", "running"}}};

TEST(RunState, EveryEventInEveryState) {
  ASSERT_EQ(expected.size(), all_run_states().size());
  for (const RunState state : all_run_states()) {
    const auto& row = expected.at(std::string(name_of(state)));
    ASSERT_EQ(row.size(), all_events.size());
    for (std::size_t i = 0; i < all_events.size(); ++i) {
      const auto next = next_state(state, all_events[i]);
      EXPECT_EQ(next ? name_of(*next) : "-", row[i]) << name_of(state) << " + " << name_of(all_events[i]);
    }
  }
}

TEST(RunState, OnlyANewAttemptLeavesATerminalState) {
  for (const RunState state : all_run_states()) {
    if (!is_terminal(state)) continue;
    for (const RunEvent event : all_events) {
      const bool new_attempt = event == resume_requested || event == newer_attempt;
      EXPECT_EQ(next_state(state, event).has_value(), new_attempt) << name_of(state) << " + " << name_of(event);
    }
  }
}

TEST(RunState, AFailedEvaluationChangesNone) {
  for (const RunState state : all_run_states()) EXPECT_EQ(next_state(state, evaluation_failed), state);
}

TEST(RunState, NamesAreReadBack) {
  for (const RunState state : all_run_states()) EXPECT_EQ(run_state_of(name_of(state)), state);
  EXPECT_FALSE(run_state_of("Running"));
}

}  // namespace
}  // namespace babelring::store
