#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"

namespace babelring::translate {

/// A child process, `nmt translate --serve` or `nmt export`, whose input and output are lines. The destructor kills it
/// with SIGKILL. Not thread-safe.
class NmtProcess {
 public:
  /// Starts `program` with standard input and output connected to this object. It inherits no other file descriptors,
  /// no blocked signals and only the necessary part of the environment. `folder` is its working folder; empty:
  /// inherited. Throws Failure if it cannot be started.
  NmtProcess(const std::filesystem::path& program, const std::vector<std::string>& arguments,
             const std::filesystem::path& folder = {});
  ~NmtProcess();
  NmtProcess(const NmtProcess&) = delete;
  NmtProcess& operator=(const NmtProcess&) = delete;

  enum class LineStatus { ok, ended, late, abandoned };
  struct Line {
    LineStatus result = LineStatus::ok;
    std::string text;
  };
  /// Sends a line, given without its newline. Returns `late` if the process does not accept it before the deadline.
  LineStatus send(const std::string& line, SteadyClock::time_point deadline);
  /// Receives the next line; max 16 MiB.
  Line receive(SteadyClock::time_point deadline);

  bool running();
  /// Kills the process. Returns its exit code, or 128 + signal.
  int end();
  /// The last line on its standard error, made printable.
  std::string last_error_line() const;
  pid_t pid() const { return pid_; }

 private:
  bool wait_for(bool to_write, SteadyClock::time_point deadline);
  void read_errors();
  void reap(bool wait);

  pid_t pid_ = -1;
  int channel_ = -1, errors_ = -1;  // bidirectional channel; standard error of the process
  std::string received_, error_text_;
  std::optional<int> exit_code_;
};

}  // namespace babelring::translate
