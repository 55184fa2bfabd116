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

/// What to start. No shell is involved: each argument arrives as it is.
struct ProcessOrder {
  std::vector<std::string> arguments;    // the program first; looked up in PATH without a slash
  std::vector<std::string> environment;  // NAME=value, the whole of it
  std::filesystem::path folder;          // to work in; empty: ours
  std::filesystem::path output;          // file that both outputs are appended to; empty: thrown away
  int input = -1;                        // descriptor that is its standard input; negative: /dev/null
  int nice = 0;                          // by how many steps its priority is lower than ours
};

/// A program in a session of its own, which goes on when we end. It inherits no other file of ours, no blocked signal
/// and no ignored one. Throws Failure naming the program.
pid_t start_process(const ProcessOrder& order);

/// How a child of ours ended: its exit code, or 128 + the signal that killed it.
struct Ended {
  int code = 0;
};
/// Without waiting: nothing while it runs. A pid that is no child of ours counts as ended with -1.
std::optional<Ended> poll_child(pid_t pid);

/// What a short program said and how it ended.
struct ProgramAnswer {
  int code = 0;           // -1: it took too long, said too much, or was abandoned, and was killed
  std::string output;     // standard output alone
  std::string complaint;  // standard error, or why it was killed
};
struct ProgramLimits {
  std::chrono::milliseconds time{10'000};
  std::size_t output_bytes = std::size_t{1} << 20;  // each of the two
  std::uint64_t memory_bytes = 0;                   // address space; 0: no limit
  std::function<bool()> abandoned = {};             // whether nobody waits for it any more; empty: somebody does
};
/// Runs a program to its end, within limits. Throws Failure if it cannot be started.
ProgramAnswer run_program(const ProcessOrder& order, const ProgramLimits& limits);

/// PATH, HOME and their like of our own environment, which a program needs to start; nothing else of it.
std::vector<std::string> plain_environment();

/// In single quotes, for a shell script that somebody else runs.
std::string shell_quoted(const std::string& text);

}  // namespace babelring::launch
