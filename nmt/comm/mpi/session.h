#pragma once

#include <chrono>

namespace babelring {

/// Scope of MPI: MPI_Init_thread (MPI_THREAD_MULTIPLE) to MPI_Finalize. Callers need not include mpi.h. Throws Failure
/// if MPI grants a lower thread level. Both calls wait for the other ranks; if one does not return within its deadline,
/// one line is logged and the process exits. When an exception destroys the session, MPI_Finalize is skipped because it
/// would wait for the peers; `main` must then end with abort_mpi().
class MpiSession {
 public:
  static constexpr std::chrono::milliseconds default_deadline{120'000};

  /// If `deadline` expires, the process exits with code 1.
  MpiSession(int& argc, char**& argv, std::chrono::milliseconds deadline = default_deadline);
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  /// Calls MPI_Finalize. May be called once; no MPI call may follow. If `deadline` expires, the process exits with
  /// `exit_code`, because its work is already done.
  void finalize(std::chrono::milliseconds deadline, int exit_code);

  /// True if a launcher (mpirun, or srun with PMI) started this process. Otherwise there is one rank and MPI is not
  /// needed.
  static bool under_mpirun();

 private:
  int exceptions_at_start_;
  bool finalized_ = false;
};

}  // namespace babelring
