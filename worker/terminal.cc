#include "worker/terminal.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string_view>
#include <system_error>

#include "base/files.h"
#include "base/open_mpi.h"
#include "base/options/program.h"

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
  return open_mpi::is_mpirun(name) || name == "mpiexec.hydra";
}

/// The terminal that is the standard error of the MPI launcher above `pid`; "" if there is none.
std::string launcher_terminal(pid_t pid, const fs::path& proc) {
  constexpr int max_levels = 8;  // a script or a tool such as env or numactl may be in between
  for (int level = 0; level < max_levels && pid > 1; ++level) {
    const Process process = process_of(pid, proc);
    if (is_launcher(process.name)) {
      std::error_code unknown;
      const std::string target = fs::read_symlink(proc / std::to_string(pid) / "fd" / "2", unknown).string();
      const bool terminal =
          target.starts_with("/dev/pts/") || target.starts_with("/dev/tty") || target == "/dev/console";
      return terminal ? target : "";
    }
    pid = process.parent;
  }
  return "";
}

}  // namespace

bool launcher_has_terminal(pid_t pid, const fs::path& proc) {
  return !launcher_terminal(pid, proc).empty();
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

int progress_columns() {
  int columns = terminal_columns(STDERR_FILENO);
  if (columns == 0) {
    const std::string terminal = launcher_terminal(getppid(), "/proc");
    const FileDescriptor opened(terminal.empty() ? -1 : open(terminal.c_str(), O_RDONLY | O_NOCTTY | O_CLOEXEC));
    if (opened) columns = terminal_columns(opened.get());
  }
  return columns > 0 ? columns : 80;
}

}  // namespace babelring
