#pragma once

#include <chrono>
#include <string>

namespace babelring {

/// What MPI is here.
struct MpiReport {
  std::string library;  // "Open MPI v4.1.4"
  std::string why;      // it cannot be used by several threads at once; empty: it can
};

/// Starts MPI for a moment, in a process of its own: where that fails, MPI ends the process. To be called before
/// threads are started.
MpiReport probe_mpi(std::chrono::milliseconds deadline);

}  // namespace babelring
