#include "nmt/comm/mpi_session.h"

#include <mpi.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <thread>

#include "nmt/base/failure.h"
#include "nmt/comm/communicator.h"

namespace babelring {

MpiSession::MpiSession(int& argc, char**& argv) : exceptions_at_start_(std::uncaught_exceptions()) {
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
  if (std::uncaught_exceptions() == exceptions_at_start_) MPI_Finalize();
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
