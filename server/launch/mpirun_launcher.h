#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "server/launch/launcher.h"
#include "server/launch/process.h"

/// Process information from /proc. Results may be outdated by the time they are returned. Functions that read /proc
/// throw if it cannot be read, for example when file descriptors run out.

namespace babelring::launch {

struct ProcessFacts {
  pid_t pid = 0, parent = 0, group = 0, session = 0;
  char state = '?';              // R, S, D, T (stopped), Z (zombie), …
  std::int64_t start_ticks = 0;  // start time since boot; unique together with the pid
  bool alive() const { return state != 'Z' && state != 'X'; }
};

/// Parses /proc/PID/stat. Returns nothing if it is malformed. The command name may contain spaces and parentheses.
std::optional<ProcessFacts> parse_process(const std::string& stat);
std::optional<ProcessFacts> find_process(pid_t pid);
/// All visible processes.
std::vector<ProcessFacts> all_processes();
/// All live processes of a session.
std::vector<ProcessFacts> session_members(pid_t session);
/// Live session leaders with all of these entries, NAME=value, in their environment.
std::vector<ProcessFacts> leaders_with_environment(const std::vector<std::string>& entries);

/// A text that changes whenever every process was ended at once: the machine's boot, the PID namespace, and the start
/// of its first process. A container started anew differs in the latter two.
std::string process_world();

/// Runs mpirun on this host, over the profile's hosts. mpirun leads its own session. All local processes of the attempt
/// belong to that session, so they can be found even after a server restart. Remote ranks end when mpirun's connection
/// breaks, or with the response to their next heartbeat.
class MpirunLauncher : public Launcher {
 public:
  std::string name() const override { return "mpirun"; }
  bool runs_beside_server() const override { return true; }
  std::vector<std::string> command(const Profile& profile, const LaunchOrder& order) const override;
  store::LauncherHandle start(const Profile& profile, const LaunchOrder& order) override;
  std::optional<store::LauncherHandle> find(const std::string& run, std::int64_t attempt) override;
  std::optional<bool> hosts_answer(const Profile& profile, const std::vector<Host>& hosts) override;
  ProcessStatus poll(const store::LauncherHandle& handle) override;
  void ask_to_stop(const store::LauncherHandle& handle) override;
  store::LauncherHandle start_evaluation(const Profile& profile, const LaunchOrder& order) override;
  void kill(const store::LauncherHandle& handle, bool urgent) override;

 private:
  /// Starts a process that leads its own session. Throws Failure, and leaves no process behind, if that fails.
  store::LauncherHandle start_leader(const ProcessOrder& order);

  /// A program that shows whether hosts answer.
  struct Question {
    pid_t pid = 0;
    SteadyClock::time_point asked;
  };
  using Questions = std::map<std::string, Question>;
  std::optional<bool> take_answer(Questions::iterator asked);

  Questions questions_;                         // by profile and hosts
  std::map<std::int64_t, std::int64_t> ended_;  // reaped children: pid → exit code
};

}  // namespace babelring::launch
