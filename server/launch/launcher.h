#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "server/launch/profile.h"
#include "server/store/control_rows.h"

namespace babelring::launch {

/// One attempt to be started.
struct LaunchOrder {
  std::string run, name;
  std::int64_t attempt = 1, world_size = 1;
  std::filesystem::path folder;          // the run's
  std::string resume_from;               // folder of a checkpoint; empty: the newest of the run's own, if any
  std::vector<Host> hosts;               // chosen; empty: this one, or as Slurm likes
  std::string server;                    // address that workers report to
  std::vector<std::string> environment;  // besides the profile's: tokens
};

/// What can be seen of an attempt's processes.
struct Sight {
  enum class Kind {
    pending,  // accepted, but not started by the scheduler
    alive,
    ended,      // nothing of it is left
    preempted,  // ended, or ending, because the scheduler took the machines away
    unknown,    // cannot be told now
  } kind = Kind::unknown;
  std::optional<std::int64_t> exit_code;  // of ended; above 128: 128 + signal
  std::string detail;                     // what the launcher reports
};

/// How attempts are started, watched and ended. Called from the supervisor's thread; ask_to_stop() from any.
class Launcher {
 public:
  virtual ~Launcher() = default;
  virtual std::string name() const = 0;
  /// The program and arguments that would run.
  virtual std::vector<std::string> command(const Profile& profile, const LaunchOrder& order) const = 0;
  /// Throws Failure if it cannot be started; nothing is left behind then.
  virtual store::LauncherHandle start(const Profile& profile, const LaunchOrder& order) = 0;
  /// An attempt that was being started when an earlier server ended; nothing if there is none.
  virtual std::optional<store::LauncherHandle> find(const std::string& run, std::int64_t attempt) = 0;
  virtual Sight look(const store::LauncherHandle& handle) = 0;
  /// Passes the wish to stop with a checkpoint on to the ranks, where the launcher can.
  virtual void ask_to_stop(const store::LauncherHandle& handle) = 0;
  /// Ends all processes. Called again and again until look() says ended; `urgent` after some seconds.
  virtual void kill(const store::LauncherHandle& handle, bool urgent) = 0;
};

/// Names of files in a run's folder.
std::filesystem::path launch_config_path(const std::filesystem::path& folder);
std::filesystem::path launch_log_path(const std::filesystem::path& folder, std::int64_t attempt);

/// The worker and its arguments.
std::vector<std::string> worker_command(const Profile& profile, const LaunchOrder& order);
/// The profile's own command, else the usual one, with {ranks} and {hosts} filled in, and the worker with its
/// arguments.
std::vector<std::string> full_command(const Profile& profile, const LaunchOrder& order,
                                      const std::vector<std::string>& usual);
/// Environment of launcher and workers: the plain one, the profile's, the order's, and the marks by which it is found.
/// Each name is there once; the later of these wins.
std::vector<std::string> launch_environment(const Profile& profile, const LaunchOrder& order);
/// NAME=value that mark an attempt's processes.
std::vector<std::string> attempt_marks(const std::string& run, std::int64_t attempt);

}  // namespace babelring::launch
