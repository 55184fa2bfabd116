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

std::string library_name() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  if (MPI_Get_library_version(text.data(), &length) != MPI_SUCCESS) return "MPI";
  const std::string_view all(text.data());
  return std::string(all.substr(0, all.find_first_of(",\n")));
}

/// Removes mpirun's variables: with them, the child would take itself for one of mpirun's ranks.
void forget_launcher() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMIX_NAMESPACE",
                           "PMIX_SERVER_URI", "PMIX_SERVER_URI2", "PMIX_SERVER_URI21", "PMIX_SERVER_URI3",
                           "PMIX_SERVER_URI4", "OMPI_MCA_ess", "OMPI_MCA_orte_ess_jobid", "OMPI_MCA_orte_ess_vpid"}) {
    ::unsetenv(name);
  }
}

/// The child: writes 1 if MPI_THREAD_MULTIPLE is granted, else 0, and exits.
[[noreturn]] void start_and_tell(int out) {
  forget_launcher();
  const int nowhere = ::open("/dev/null", O_RDWR);
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(nowhere, standard);
  int granted = 0;
  const int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &granted);
  const char digit = static_cast<char>('0' + (code == MPI_SUCCESS && granted == MPI_THREAD_MULTIPLE ? 1 : 0));
  const bool told = ::write(out, &digit, 1) == 1;
  if (code == MPI_SUCCESS) MPI_Finalize();
  ::_exit(told ? 0 : 1);
}

/// Waits for the process to end; kills it after `patience`.
void see_off(pid_t child, std::chrono::milliseconds patience) {
  const Stopwatch watch;
  while (::waitpid(child, nullptr, WNOHANG) == 0) {
    if (watch.elapsed_ms() >= static_cast<double>(patience.count())) {
      ::kill(child, SIGKILL);
      ::waitpid(child, nullptr, 0);
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

}  // namespace

MpiReport probe_mpi(std::chrono::milliseconds deadline) {
  MpiReport report{.library = library_name(), .why = {}};
  std::array<int, 2> pipe{};
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0) return {report.library, "no pipe could be made"};
  const pid_t child = ::fork();
  if (child == 0) start_and_tell(pipe[1]);
  ::close(pipe[1]);
  pollfd waited{.fd = pipe[0], .events = POLLIN, .revents = 0};
  int ready = -1;
  if (child > 0) {
    do {  // a stop and its end interrupt it
      ready = ::poll(&waited, 1, static_cast<int>(deadline.count()));
    } while (ready < 0 && errno == EINTR);
  }
  char digit = '\0';
  const bool told = ready > 0 && ::read(pipe[0], &digit, 1) == 1;
  ::close(pipe[0]);
  if (child > 0) see_off(child, told ? std::chrono::milliseconds(5000) : std::chrono::milliseconds(0));
  if (child < 0) {
    report.why = "no process could be started";
  } else if (!told) {
    report.why = ready == 0 ? fmt::format("MPI_Init does not return within {} s", deadline.count() / 1000)
                            : "MPI_Init fails (mpirun -np 1 true says why)";
  } else if (digit != '1') {
    report.why = "it does not grant MPI_THREAD_MULTIPLE, which workers need";
  }
  return report;
}

}  // namespace babelring
