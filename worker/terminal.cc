#include "worker/terminal.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <string_view>
#include <system_error>

namespace babelring {

namespace {

namespace fs = std::filesystem;

struct Process {
  std::string name;
  pid_t parent = 0;
};

/// Reads /proc/PID/status. The name is empty if there is no such process.
Process process_of(pid_t pid, const fs::path& proc) {
  Process process;
  std::ifstream status(proc / std::to_string(pid) / "status");
  for (std::string word; status >> word;) {
    if (word == "Name:") status >> process.name;
    if (word == "PPid:") {
      status >> process.parent;
      break;
    }
  }
  return process;
}

bool is_launcher(std::string_view name) {
  constexpr std::array<std::string_view, 6> names = {"mpirun",  "mpiexec", "orterun",
                                                     "prterun", "prun",    "mpiexec.hydra"};
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

bool launcher_has_terminal(pid_t pid, const fs::path& proc) {
  constexpr int max_levels = 8;  // a script or a tool such as env or numactl may be in between
  for (int level = 0; level < max_levels && pid > 1; ++level) {
    const Process process = process_of(pid, proc);
    if (is_launcher(process.name)) {
      std::error_code unknown;
      const std::string target = fs::read_symlink(proc / std::to_string(pid) / "fd" / "2", unknown).string();
      return target.starts_with("/dev/pts/") || target.starts_with("/dev/tty") || target == "/dev/console";
    }
    pid = process.parent;
  }
  return false;
}

const Choices<ProgressBar>& progress_bar_choices() {
  using enum ProgressBar;
  static const Choices<ProgressBar> choices = {{"auto", automatic}, {"always", always}, {"never", never}};
  return choices;
}

bool draws_progress(ProgressBar choice) {
  if (choice != ProgressBar::automatic) return choice == ProgressBar::always;
  return isatty(STDERR_FILENO) == 1 || launcher_has_terminal(getppid());
}

}  // namespace babelring
