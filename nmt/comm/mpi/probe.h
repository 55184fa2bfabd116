#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "base/result.h"

namespace babelring {

/// The MPI library installed on this machine.
struct MpiReport {
  std::string library;  // mpi_library()
  Status thread_safe;   // the Error says why MPI_THREAD_MULTIPLE is unavailable
};

/// Name and version of the MPI library: "Open MPI v4.1.4". May be called before MPI is initialised.
std::string mpi_library();

/// The version in that text: "4.1.4". Of a library other than Open MPI the whole text.
std::string open_mpi_version(std::string_view library);

/// True if mpirun or srun sets the environment variable `name` for a rank. A program that inherits them and is no rank
/// cannot initialise MPI.
bool set_by_launcher(std::string_view name);

/// Initialises MPI in a child process, because a failing MPI_Init ends its process. Must be called before any thread is
/// started, because it forks.
MpiReport probe_mpi(std::chrono::milliseconds deadline);

}  // namespace babelring
