#pragma once

#include <sys/types.h>

#include <filesystem>
#include <initializer_list>
#include <string>
#include <vector>

#include "base/result.h"

namespace babelring {

/// Raises the nice value of a process by `steps`, or of the calling thread if `pid` is 0. Threads and processes started
/// later inherit it. If the process leads a session, also raises the nice value of the session's autogroup, because
/// Linux first divides CPU time between autogroups. Errors are ignored.
void lower_priority(pid_t pid, int steps);

/// A program to start with posix_spawn. No shell is involved; arguments are passed unchanged.
struct SpawnOptions {
  std::vector<std::string> arguments;     // program first; looked up in PATH if it contains no slash
  std::vector<std::string> environment;   // complete environment, NAME=value
  std::filesystem::path folder = {};      // working folder; empty: inherited
  int input = -1;                         // descriptor for standard input; negative: /dev/null
  int output = -1;                        // descriptor for standard output; negative: output_file
  int errors = -1;                        // descriptor for standard error; negative: the same as standard output
  std::string output_file = "/dev/null";  // appended; created with mode 0640
  bool new_session = true;                // false: a new process group, which signals from this terminal do not reach
  int nice = 0;                           // added to the nice value
};

/// Starts a program and returns its pid. It inherits no other file descriptors and no blocked or ignored signals. The
/// error is the system's reason.
Result<pid_t> spawn(const SpawnOptions& options);

/// The variables of this process's environment with these names, NAME=value; absent ones are left out.
std::vector<std::string> inherited_environment(std::initializer_list<const char*> names);

}  // namespace babelring
