#include "nmt/comm/mpi/probe.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <mpi.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <iterator>
#include <thread>
#include <vector>

#include "base/clock.h"

namespace babelring {
namespace {

/// Removes the environment variables of mpirun and of srun's PMI, so that the child does not act as one of their ranks.
/// Parameters that the user sets (OMPI_MCA_btl and others) stay.
void unset_launcher_variables() {
  std::vector<std::string> names;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text(*variable);
    names.emplace_back(text.substr(0, text.find('=')));
  }
  for (const std::string& name : names) {
    if (set_by_launcher(name)) ::unsetenv(name.c_str());
  }
}

/// Child process: writes '1' to `out` if MPI grants MPI_THREAD_MULTIPLE, else '0', and exits.
[[noreturn]] void init_and_report(int out) {
  unset_launcher_variables();
  const int null_device = ::open("/dev/null", O_RDWR);
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(null_device, standard);
  int granted = 0;
  const int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &granted);
  const char digit = static_cast<char>('0' + (code == MPI_SUCCESS && granted == MPI_THREAD_MULTIPLE ? 1 : 0));
  const bool reported = ::write(out, &digit, 1) == 1;
  if (code == MPI_SUCCESS) MPI_Finalize();
  ::_exit(reported ? 0 : 1);
}

/// Waits for the child to exit; kills it after `timeout`.
void reap_child(pid_t child, std::chrono::milliseconds timeout) {
  const Stopwatch watch;
  while (::waitpid(child, nullptr, WNOHANG) == 0) {
    if (watch.elapsed_ms() >= static_cast<double>(timeout.count())) {
      ::kill(child, SIGKILL);
      ::waitpid(child, nullptr, 0);
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

}  // namespace

bool set_by_launcher(std::string_view name) {
  // Open MPI 4's orterun and Open MPI 5's prterun; PMIx and PMI-1/2 as srun offers them.
  constexpr std::string_view prefixes[] = {"PMIX_",          "PMI_",         "PRTE_",         "OMPI_COMM_WORLD_",
                                           "OMPI_MCA_orte_", "OMPI_MCA_ess", "OMPI_MCA_pmix", "OMPI_APP_CTX_"};
  constexpr std::string_view whole[] = {"OMPI_UNIVERSE_SIZE", "OMPI_NUM_APP_CTX", "OMPI_FIRST_RANKS",
                                        "OMPI_FILE_LOCATION", "OMPI_COMMAND",     "OMPI_ARGV"};
  return std::ranges::any_of(prefixes, [name](std::string_view prefix) { return name.starts_with(prefix); }) ||
         std::ranges::find(whole, name) != std::end(whole);
}

std::string mpi_library() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  if (MPI_Get_library_version(text.data(), &length) != MPI_SUCCESS) return "MPI";
  const std::string_view all(text.data());
  return std::string(all.substr(0, all.find_first_of(",\n")));
}

std::string open_mpi_version(std::string_view library) {
  constexpr std::string_view name = "Open MPI v";
  return std::string(library.starts_with(name) ? library.substr(name.size()) : library);
}

MpiReport probe_mpi(std::chrono::milliseconds deadline) {
  MpiReport report{.library = mpi_library(), .thread_safe = {}};
  std::array<int, 2> pipe{};
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0) return {report.library, Error{"pipe failed"}};
  const pid_t child = ::fork();
  if (child == 0) init_and_report(pipe[1]);
  ::close(pipe[1]);
  pollfd readable{.fd = pipe[0], .events = POLLIN, .revents = 0};
  int ready = -1;
  if (child > 0) {
    do {  // SIGSTOP and SIGCONT interrupt poll()
      ready = ::poll(&readable, 1, static_cast<int>(deadline.count()));
    } while (ready < 0 && errno == EINTR);
  }
  char digit = '\0';
  const bool reported = ready > 0 && ::read(pipe[0], &digit, 1) == 1;
  ::close(pipe[0]);
  if (child > 0) reap_child(child, reported ? std::chrono::milliseconds(5000) : std::chrono::milliseconds(0));
  if (child < 0) {
    report.thread_safe = Error{"fork failed"};
  } else if (!reported) {
    report.thread_safe = Error{ready == 0 ? fmt::format("MPI_Init did not return within {} s", deadline.count() / 1000)
                                          : "MPI_Init failed (run mpirun -np 1 true to see why)"};
  } else if (digit != '1') {
    report.thread_safe = Error{"MPI_Init does not grant MPI_THREAD_MULTIPLE, which workers need"};
  }
  return report;
}

}  // namespace babelring
