#pragma once

#include <chrono>
#include <string>

namespace babelring {

/// The MPI library installed on this machine.
struct MpiReport {
  std::string library;  // "Open MPI v4.1.4"
  std::string why;      // why it lacks MPI_THREAD_MULTIPLE; empty if it has it
};

/// Initialises MPI in a child process, because a failing MPI_Init ends its process. Must be called before any thread is
/// started, because it forks.
MpiReport probe_mpi(std::chrono::milliseconds deadline);

}  // namespace babelring
