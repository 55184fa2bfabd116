#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/result.h"
#include "server/launch/launcher.h"
#include "server/launch/process.h"

namespace babelring::launch {

/// One line of squeue output.
struct SlurmJob {
  std::string id, state, reason, name;
  std::int64_t exit_code = 0;
};
/// Parses the output of squeue. The text is untrusted; malformed lines are skipped.
std::vector<SlurmJob> parse_squeue(std::string_view text);
/// The attempt status for a job's state.
ProcessStatus sight_of(const SlurmJob& job);
/// The job id in the output of sbatch --parsable, "4711" or "4711;cluster". Empty if malformed.
std::string parse_sbatch(std::string_view text);

/// Runs attempts as Slurm jobs, using sbatch, squeue and scancel. A separate thread polls squeue once per second while
/// there are jobs, so an unresponsive Slurm controller does not block the supervisor.
class SlurmLauncher : public Launcher {
 public:
  SlurmLauncher() = default;
  ~SlurmLauncher() override;
  std::string name() const override { return "slurm"; }
  /// The sbatch command line; its last argument is the script.
  std::vector<std::string> command(const Profile& profile, const LaunchOrder& order) const override;
  store::LauncherHandle start(const Profile& profile, const LaunchOrder& order) override;
  std::optional<store::LauncherHandle> find(const std::string& run, std::int64_t attempt) override;
  ProcessStatus poll(const store::LauncherHandle& handle) override;
  void ask_to_stop(const store::LauncherHandle& handle) override;
  store::LauncherHandle start_evaluation(const Profile& profile, const LaunchOrder& order) override;
  void kill(const store::LauncherHandle& handle, bool urgent) override;

 private:
  void poll_loop();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::set<std::string> wanted_;                                         // jobs requested since the last poll
  std::map<std::string, SlurmJob> seen_;                                 // from the last squeue output
  std::map<std::string, int> missing_;                                   // consecutive polls without the job
  std::map<std::string, std::chrono::steady_clock::time_point> killed_;  // time of the last scancel
  Status last_poll_;                                                     // outcome of the last squeue call
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace babelring::launch
