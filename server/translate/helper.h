#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace babelring::translate {

/// A process that is given lines and answers lines. Ends, by SIGKILL, with the object. One thread at a time.
class Helper {
 public:
  /// Starts `program`, whose standard input and output are ours. It inherits no other file, no blocked signal and only
  /// what it needs of the environment. Throws Failure if it cannot be started.
  Helper(const std::filesystem::path& program, const std::vector<std::string>& arguments);
  ~Helper();
  Helper(const Helper&) = delete;
  Helper& operator=(const Helper&) = delete;

  enum class Trouble { none, ended, late, abandoned };
  struct Line {
    Trouble trouble = Trouble::none;
    std::string text;
  };
  /// Gives it a line (without its end). `late`: it did not take it before the deadline.
  Trouble send(const std::string& line, SteadyClock::time_point deadline);
  /// Its next line, of at most 16 MiB.
  Line receive(SteadyClock::time_point deadline);

  bool running();
  /// Ends it, and says how it ended: its exit code, or 128 and the signal.
  int end();
  /// The last line it wrote to standard error, printable.
  std::string last_words() const;
  pid_t pid() const { return pid_; }

 private:
  bool wait_for(bool to_write, SteadyClock::time_point deadline);
  void read_errors();
  void reap(bool wait);

  pid_t pid_ = -1;
  int channel_ = -1, errors_ = -1;  // both ways; its standard error
  std::string received_, error_text_;
  std::optional<int> exit_code_;
};

}  // namespace babelring::translate
