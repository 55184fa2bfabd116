#pragma once

#include <chrono>

namespace babelring {

/// MPI_Init_thread (MPI_THREAD_MULTIPLE) … MPI_Finalize, so that no one else includes mpi.h. Throws Failure if MPI
/// grants less. Both calls wait for the other ranks; if one does not return within its deadline, one line says so and
/// the process ends at once. Destroyed by an exception on its way up, it does not finalise, which would wait for the
/// peers: `main` then ends with abort_mpi().
class MpiSession {
 public:
  static constexpr std::chrono::milliseconds default_deadline{120'000};

  /// If `deadline` expires, the process ends with exit code 1.
  MpiSession(int& argc, char**& argv, std::chrono::milliseconds deadline = default_deadline);
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  /// MPI_Finalize; once, and nothing of MPI is called afterwards. If `deadline` expires, the process ends with
  /// `exit_code`, that of its work, which is done.
  void finalize(std::chrono::milliseconds deadline, int exit_code);

  /// Whether a launcher (mpirun, srun with PMI) started this process; else it is one rank and needs no MPI.
  static bool under_mpirun();

 private:
  int exceptions_at_start_;
  bool finalized_ = false;
};

}  // namespace babelring
