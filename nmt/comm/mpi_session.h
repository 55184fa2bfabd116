#pragma once

namespace babelring {

/// MPI_Init_thread (MPI_THREAD_MULTIPLE) … MPI_Finalize, so that no one else includes mpi.h. Throws Failure if MPI
/// grants less. `under_mpirun()` tells whether a launcher started this process (else: one rank, no MPI needed).
class MpiSession {
 public:
  MpiSession(int& argc, char**& argv);
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  static bool under_mpirun();
};

}  // namespace babelring
