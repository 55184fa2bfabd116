#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace babelring {

/// A deadline for a call that cannot be interrupted. Unless destroyed first, calls `expired` once after `deadline`, on
/// its own thread. `expired` usually ends the process. Time during which the process was stopped (SIGSTOP) does not
/// count.
class Watchdog {
 public:
  Watchdog(std::chrono::milliseconds deadline, std::function<void()> expired);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  void watch(std::chrono::milliseconds deadline);

  std::function<void()> expired_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool over_ = false;
  std::thread thread_;
};

/// The number of ranks this process's launcher claims to have started, and the environment variable that states it.
struct LaunchedRanks {
  int ranks = 1;
  std::string variable;
};

/// Looks up an environment variable; returns null if it is not set.
using Environment = std::function<const char*(const char* name)>;

/// Must be called before MPI_Init, which sets variables itself. Open MPI's own variable takes precedence, because under
/// mpirun Slurm's variables describe the whole allocation and a cluster's WORLD_SIZE all of its jobs.
std::optional<LaunchedRanks> find_launched_ranks(const Environment& environment);

/// Throws UsageFailure with launch instructions if more ranks were promised than MPI has, because each process would
/// then train alone.
void require_launched_ranks(const std::optional<LaunchedRanks>& promised, int ranks);

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
