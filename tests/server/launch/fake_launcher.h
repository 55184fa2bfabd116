#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "server/launch/launcher.h"

namespace babelring::testing {

/// Starts nothing; the test sets the status of each process.
class FakeLauncher : public launch::Launcher {
 public:
  std::string name() const override { return "mpirun"; }
  bool runs_beside_server() const override { return beside_server; }
  std::vector<std::string> command(const launch::Profile& profile, const launch::LaunchOrder& order) const override {
    return launch::worker_command(profile, order);
  }
  store::LauncherHandle start(const launch::Profile&, const launch::LaunchOrder& order) override {
    if (!refusal.empty()) throw Failure(refusal);
    orders.push_back(order);
    const auto pid = static_cast<std::int64_t>(1000 + orders.size());
    statuses[pid] = {.kind = launch::ProcessStatus::Kind::alive};
    return {.pid = pid, .start_ticks = 7, .job = ""};
  }
  std::optional<store::LauncherHandle> find(const std::string&, std::int64_t) override { return found; }
  launch::ProcessStatus poll(const store::LauncherHandle& handle) override { return statuses[handle.pid]; }
  void ask_to_stop(const store::LauncherHandle& handle) override { asked.push_back(handle.pid); }
  store::LauncherHandle start_evaluation(const launch::Profile&, const launch::LaunchOrder& order) override {
    evaluated.push_back(order.run);
    if (!evaluation_refusal.empty()) throw Failure(evaluation_refusal);
    const auto pid = static_cast<std::int64_t>(5000 + evaluated.size());
    statuses[pid] = {.kind = launch::ProcessStatus::Kind::alive};
    return {.pid = pid, .start_ticks = 7, .job = ""};
  }
  /// The end of the newest evaluation.
  void end_evaluation(launch::ProcessStatus status) {
    statuses[static_cast<std::int64_t>(5000 + evaluated.size())] = std::move(status);
  }
  std::optional<bool> hosts_answer(const launch::Profile&, const std::vector<launch::Host>& hosts) override {
    asked_hosts.push_back(hosts);
    const auto dead = [this](const launch::Host& host) { return dead_hosts.contains(host.name); };
    return std::any_of(hosts.begin(), hosts.end(), dead) ? false : answer;
  }
  void kill(const store::LauncherHandle& handle, bool urgent) override {
    killed.push_back(handle.pid);
    if (obeys || urgent) statuses[handle.pid] = {.kind = launch::ProcessStatus::Kind::ended, .exit_code = 143};
  }

  /// The newest one's end.
  void end(std::int64_t code) { statuses[last()] = {.kind = launch::ProcessStatus::Kind::ended, .exit_code = code}; }
  std::int64_t last() const { return static_cast<std::int64_t>(1000 + orders.size()); }

  std::vector<launch::LaunchOrder> orders;
  std::vector<std::int64_t> asked, killed;
  std::vector<std::string> evaluated;  // runs whose evaluation was to be started
  std::string evaluation_refusal;
  std::vector<std::vector<launch::Host>> asked_hosts;
  std::optional<bool> answer = true;
  std::set<std::string> dead_hosts;  // do not answer
  std::map<std::int64_t, launch::ProcessStatus> statuses;
  std::optional<store::LauncherHandle> found;
  std::string refusal;
  bool obeys = true, beside_server = true;
};

}  // namespace babelring::testing
