#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/launch/profile.h"
#include "server/store/attempts.h"

namespace babelring::launch {

/// The last worker log line of level error, without its timestamp. Empty if there is none.
std::string last_error_line(std::string_view text);
/// The last 64 KiB of a file; empty if it cannot be read.
std::string tail_of(const std::filesystem::path& file);

/// An order to start an attempt.
struct LaunchOrder {
  std::string run, name;
  std::int64_t attempt = 1, world_size = 1;
  std::filesystem::path folder;          // run folder
  std::string resume_from;               // checkpoint folder; empty: the run's newest checkpoint, if any
  std::int64_t expect_checkpoint = 0;    // update whose checkpoint the folder must have; 0: it may be empty
  std::vector<Host> hosts;               // hosts to use; empty: this host, or chosen by Slurm
  std::string server;                    // server address for the workers
  std::vector<std::string> environment;  // in addition to the profile's, e.g. tokens
};

/// Observed status of an attempt's processes.
struct ProcessStatus {
  enum class Kind {
    pending,  // accepted, not yet started by the scheduler
    alive,
    ended,      // no process is left
    preempted,  // ended or ending because the scheduler preempted the job
    unknown,    // currently unavailable
  } kind = Kind::unknown;
  std::optional<std::int64_t> exit_code;  // set for ended; 128 + signal if killed by a signal
  /// For ended: it ended by itself, somebody cancelled it, or the scheduler ended it unasked (a lost node, a limit).
  enum class Cause { own, cancelled, revoked } cause = Cause::own;
  std::string detail;  // as reported by the launcher
};

/// Starts, monitors and kills attempts. Call all functions from the supervisor's thread, except ask_to_stop(), which
/// any thread may call.
class Launcher {
 public:
  virtual ~Launcher() = default;
  virtual std::string name() const = 0;
  /// True if attempts are processes beside the server, which end with its container or machine.
  virtual bool runs_beside_server() const { return false; }
  /// The command line that start() would use.
  virtual std::vector<std::string> command(const Profile& profile, const LaunchOrder& order) const = 0;
  /// Starts the attempt. Throws Failure, and leaves no process behind, if it cannot be started.
  virtual store::LauncherHandle start(const Profile& profile, const LaunchOrder& order) = 0;
  /// Finds an attempt that an earlier server process started. Returns nothing if there is none.
  virtual std::optional<store::LauncherHandle> find(const std::string& run, std::int64_t attempt) = 0;
  /// Polls the status of an attempt or an evaluation without blocking.
  virtual ProcessStatus poll(const store::LauncherHandle& handle) = 0;
  /// Asks the ranks to save a checkpoint and stop, if the launcher supports it.
  virtual void ask_to_stop(const store::LauncherHandle& handle) = 0;
  /// Starts profile.evaluation for the order's run, unless it is in progress. It ends by itself and does not depend on
  /// attempts. Returns a handle for poll(). Throws Failure if it cannot be started.
  virtual store::LauncherHandle start_evaluation(const Profile& profile, const LaunchOrder& order) = 0;
  /// True if programs can be started on all `hosts`, false if not. Does not block: starts one, and returns nothing
  /// until it has ended or half a minute has passed.
  virtual std::optional<bool> hosts_answer(const Profile& profile, const std::vector<Host>& hosts) {
    static_cast<void>(profile);
    static_cast<void>(hosts);
    return true;
  }
  /// Terminates all processes. Called repeatedly until poll() returns `ended`; `urgent` is set after some seconds.
  virtual void kill(const store::LauncherHandle& handle, bool urgent) = 0;
};

/// Paths of the launch configuration and the launcher's log in a run folder.
std::filesystem::path launch_config_path(const std::filesystem::path& folder);
std::filesystem::path launch_log_path(const std::filesystem::path& folder, std::int64_t attempt);

std::filesystem::path evaluation_log_path(const std::filesystem::path& folder);

/// The worker program and its arguments.
std::vector<std::string> worker_command(const Profile& profile, const LaunchOrder& order);
/// The launcher command followed by the worker command, or by `program`. Uses the profile's command, or `usual` if it
/// has none, with {ranks} and {hosts} replaced.
std::vector<std::string> full_command(const Profile& profile, const LaunchOrder& order,
                                      const std::vector<std::string>& usual);
std::vector<std::string> full_command(const Profile& profile, const LaunchOrder& order,
                                      const std::vector<std::string>& usual, const std::vector<std::string>& program);
/// The environment of the launcher and the workers. Merges plain_environment(), the profile's and the order's entries,
/// and attempt_marks(). Each name appears once; later sources override earlier ones.
std::vector<std::string> launch_environment(const Profile& profile, const LaunchOrder& order);
/// profile.evaluation for the order's run.
std::vector<std::string> evaluation_command(const Profile& profile, const LaunchOrder& order);
/// The environment of that command: plain_environment(), the profile's entries, the server's address and
/// evaluation_mark(). An attempt's token is not part of it, since it ends with the run.
std::vector<std::string> evaluation_environment(const Profile& profile, const LaunchOrder& order);
/// The environment entry that identifies the process that evaluates a run.
std::string evaluation_mark(const std::string& run);
/// Environment entries, NAME=value, that identify an attempt's processes.
std::vector<std::string> attempt_marks(const std::string& run, std::int64_t attempt);

/// Launchers by the name used in profiles.
using Launchers = std::map<std::string, std::unique_ptr<Launcher>>;

}  // namespace babelring::launch
