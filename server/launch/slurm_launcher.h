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

#include "server/launch/launcher.h"
#include "server/launch/process.h"

namespace babelring::launch {

/// One line of squeue, in the format that we ask for.
struct SlurmJob {
  std::string id, state, reason, name;
  std::int64_t exit_code = 0;
};
/// The lines of squeue that are well formed; the text is foreign, others are left out.
std::vector<SlurmJob> parse_squeue(std::string_view text);
/// What a job's state means for the attempt.
Sight sight_of(const SlurmJob& job);
/// The job id in sbatch --parsable's answer, "4711" or "4711;cluster"; empty if it is none.
std::string parse_sbatch(std::string_view text);

/// Jobs of Slurm, by sbatch, squeue and scancel. squeue is asked by a thread of its own, once a second while there are
/// jobs: a controller that does not answer delays nobody.
class SlurmLauncher : public Launcher {
 public:
  SlurmLauncher() = default;
  ~SlurmLauncher() override;
  std::string name() const override { return "slurm"; }
  /// The submission; the script is the last argument.
  std::vector<std::string> command(const Profile& profile, const LaunchOrder& order) const override;
  store::LauncherHandle start(const Profile& profile, const LaunchOrder& order) override;
  std::optional<store::LauncherHandle> find(const std::string& run, std::int64_t attempt) override;
  Sight look(const store::LauncherHandle& handle) override;
  void ask_to_stop(const store::LauncherHandle& handle) override;
  void kill(const store::LauncherHandle& handle, bool urgent) override;

 private:
  void poll_loop();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::set<std::string> wanted_;                                         // jobs looked at since the last poll
  std::map<std::string, SlurmJob> seen_;                                 // as squeue last said
  std::map<std::string, int> missing_;                                   // polls in a row that a wanted job was not in
  std::map<std::string, std::chrono::steady_clock::time_point> killed_;  // when scancel was last called
  std::string trouble_;                                                  // why squeue does not answer; empty if it does
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace babelring::launch
