#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace babelring::launch {

/// A process to start. No shell is involved; arguments are passed unchanged.
struct ProcessOrder {
  std::vector<std::string> arguments;    // program first; looked up in PATH if it contains no slash
  std::vector<std::string> environment;  // complete environment, NAME=value
  std::filesystem::path folder;          // working folder; empty: inherited
  std::filesystem::path output;          // file for standard output and error, appended; empty: /dev/null
  int input = -1;                        // descriptor for standard input; negative: /dev/null
  int nice = 0;                          // added to the nice value
};

/// Starts a program in a new session. It continues when this process ends. It inherits no other file descriptors and no
/// blocked or ignored signals. Throws Failure naming the program.
pid_t start_process(const ProcessOrder& order);

/// The end of a child process: its exit code, or 128 + the signal that killed it.
struct Ended {
  int code = 0;
};
/// Polls a child process without waiting. Returns nothing while it runs. A pid that is not a child counts as ended with
/// code -1.
std::optional<Ended> poll_child(pid_t pid);

/// Output and exit code of a program run to its end.
struct ProgramAnswer {
  int code = 0;           // exit code; -1: killed because of a limit or because it was abandoned
  std::string output;     // standard output
  std::string complaint;  // standard error, or the reason why it was killed
  bool late = false;      // killed at the time limit
};
struct ProgramLimits {
  std::chrono::milliseconds time{10'000};
  std::size_t output_bytes = std::size_t{1} << 20;  // per output stream
  std::uint64_t memory_bytes = 0;                   // address space; 0: no limit
  std::function<bool()> abandoned = {};             // polled; the program is killed once it is true. May be empty
};
/// Runs a program to its end, within the limits. Throws Failure if it cannot be started.
ProgramAnswer run_program(const ProcessOrder& order, const ProgramLimits& limits);

/// The part of this process's environment that a program needs to start: PATH, HOME and similar. Everything else is
/// left out.
std::vector<std::string> plain_environment();

}  // namespace babelring::launch
