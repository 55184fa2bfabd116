#pragma once

namespace babelring {

/// MPI_Init_thread (MPI_THREAD_MULTIPLE) … MPI_Finalize, so that no one else includes mpi.h. Throws Failure if MPI
/// grants less. Destroyed by an exception on its way up, it does not finalise, which would wait for the peers: `main`
/// then ends with abort_mpi().
class MpiSession {
 public:
  MpiSession(int& argc, char**& argv);
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  /// Whether a launcher (mpirun, srun with PMI) started this process; else it is one rank and needs no MPI.
  static bool under_mpirun();

 private:
  int exceptions_at_start_;
};

}  // namespace babelring
