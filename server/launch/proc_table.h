#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

/// What /proc says of processes; it may be out of date by the time it is returned. These throw where /proc cannot be
/// read now, for want of file descriptors, say.
namespace babelring::launch {

struct ProcessFacts {
  pid_t pid = 0, parent = 0, group = 0, session = 0;
  char state = '?';              // R, S, D, T (stopped), Z (ended, not yet waited for), …
  std::int64_t start_ticks = 0;  // since boot: with the pid it names a process for good
  bool alive() const { return state != 'Z' && state != 'X'; }
};

/// From the text of /proc/PID/stat; nothing if it is malformed. A command name may hold spaces and parentheses.
std::optional<ProcessFacts> parse_process(const std::string& stat);
std::optional<ProcessFacts> find_process(pid_t pid);
/// All processes that may be seen.
std::vector<ProcessFacts> all_processes();
/// The living ones of a session.
std::vector<ProcessFacts> session_members(pid_t session);
/// The living leaders of sessions whose environment has all of these NAME=value.
std::vector<ProcessFacts> leaders_with_environment(const std::vector<std::string>& entries);

}  // namespace babelring::launch
