#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

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

}  // namespace babelring::launch
