#include "nmt/comm/mpi_session.h"

#include <fmt/format.h>
#include <mpi.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <thread>

#include "base/failure.h"
#include "nmt/comm/communicator.h"
#include "nmt/comm/host_name.h"
#include "nmt/comm/watchdog.h"

namespace babelring {

namespace {

/// "rank 3 on hostB", or only the host if the launcher sets no rank variable.
std::string own_name() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"}) {
    if (const char* rank = std::getenv(name)) return fmt::format("rank {} on {}", rank, host_name());
  }
  return host_name();
}

/// Each connection to another rank takes a descriptor; the usual limit of 1,024 is low for the first ranks of large
/// runs.
void raise_open_files() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

MpiSession::MpiSession(int& argc, char**& argv, std::chrono::milliseconds deadline)
    : exceptions_at_start_(std::uncaught_exceptions()) {
  raise_open_files();
  const Watchdog watchdog(deadline, [deadline] {
    spdlog::error(
        "{}: MPI_Init has not returned within {:g} s: another rank or its host was not started, is stopped or cannot "
        "be "
        "reached (communication.deadline_s=N on the command line gives it N seconds)",
        own_name(), std::chrono::duration<double>(deadline).count());
    _exit(1);
  });
  int granted = MPI_THREAD_SINGLE;
  if (MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &granted) != MPI_SUCCESS) fail("mpi: MPI_Init_thread failed");
  if (granted != MPI_THREAD_MULTIPLE) {
    fail("mpi: this MPI grants thread level {}, the communication thread needs MPI_THREAD_MULTIPLE ({})", granted,
         MPI_THREAD_MULTIPLE);
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
}

MpiSession::~MpiSession() {
  if (!finalized_ && std::uncaught_exceptions() == exceptions_at_start_) finalize(default_deadline, 0);
}

void MpiSession::finalize(std::chrono::milliseconds deadline, int exit_code) {
  finalized_ = true;
  const Watchdog watchdog(deadline, [deadline, exit_code] {
    spdlog::warn(
        "{}: MPI_Finalize has not returned within {:g} s: another rank or a daemon of mpirun's is stopped or cannot be "
        "reached; this rank's work is done, and it ends with exit code {}",
        own_name(), std::chrono::duration<double>(deadline).count(), exit_code);
    _exit(exit_code);
  });
  MPI_Finalize();
}

bool MpiSession::under_mpirun() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK"}) {
    if (std::getenv(name) != nullptr) return true;
  }
  return false;
}

void abort_mpi(int exit_code) {
  std::fflush(nullptr);
  int initialised = 0, finalised = 0;
  MPI_Initialized(&initialised);
  MPI_Finalized(&finalised);
  if (initialised && !finalised) {
    std::thread([exit_code] {
      std::this_thread::sleep_for(std::chrono::seconds(2));
      _exit(exit_code);
    }).detach();
    MPI_Abort(MPI_COMM_WORLD, exit_code);
  }
  _exit(exit_code);
}

}  // namespace babelring
