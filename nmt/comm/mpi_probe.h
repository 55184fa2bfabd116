#pragma once

#include <chrono>
#include <string>

namespace babelring {

/// The MPI library of this machine.
struct MpiReport {
  std::string library;  // "Open MPI v4.1.4"
  std::string why;      // why it cannot be called by several threads at once; empty: it can
};

/// Initialises MPI in a child process, because a failure there ends the process. Call it before any thread is started.
MpiReport probe_mpi(std::chrono::milliseconds deadline);

}  // namespace babelring
