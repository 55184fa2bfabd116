#include "nmt/comm/mpi_probe.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <mpi.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <string_view>
#include <thread>

#include "base/clock.h"

namespace babelring {
namespace {

/// Removes mpirun's environment variables, so that the child does not act as one of mpirun's ranks.
void unset_launcher_variables() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMIX_NAMESPACE",
                           "PMIX_SERVER_URI", "PMIX_SERVER_URI2", "PMIX_SERVER_URI21", "PMIX_SERVER_URI3",
                           "PMIX_SERVER_URI4", "OMPI_MCA_ess", "OMPI_MCA_orte_ess_jobid", "OMPI_MCA_orte_ess_vpid"}) {
    ::unsetenv(name);
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

std::string mpi_library() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  if (MPI_Get_library_version(text.data(), &length) != MPI_SUCCESS) return "MPI";
  const std::string_view all(text.data());
  return std::string(all.substr(0, all.find_first_of(",\n")));
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
