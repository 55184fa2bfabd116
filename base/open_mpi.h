#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Words, process names and variables of Open MPI's launcher, of both generations: 4 (ORTE: mpirun, orted) and 5
/// (PRRTE: prterun, prted), which wraps its messages at 80 columns. Captured outputs: tests/base/open_mpi_outputs.txt.
namespace babelring::open_mpi {

/// The first rank that a signal ended, as mpirun names it.
struct LostRank {
  std::int64_t rank = 0;
  std::string host;
  std::string how;  // "killed by signal 9", "ended" if mpirun does not say how, or how other ranks noticed it
};

/// Finds mpirun's message about the first rank that died by a signal in its output. `text` is untrusted: extracted
/// strings are bounded and printable.
std::optional<LostRank> find_lost_rank(std::string_view text);

/// The rank that ended first where mpirun blames another: Open MPI 5 aborts a rank as soon as its connection to a lost
/// one closes. Ranks on the lost one's host say which "already ended" (worker/signal_thread.cc). Untrusted as well.
std::optional<LostRank> find_disconnected_rank(std::string_view text);

/// The host whose daemon mpirun lost; empty if it lost none. Open MPI 5 then exits 0, and says the same of a host where
/// the daemon could not start: call find_start_failure() first. Untrusted as well.
std::string find_lost_host(std::string_view text);

/// Why mpirun could not start all ranks, and the host where that happened (empty: unknown).
struct StartFailure {
  std::string cause, host;
};

/// Finds that a host is unknown or cannot be reached, has no Open MPI of this version or no program, or that slots are
/// too few. Untrusted as well.
std::optional<StartFailure> find_start_failure(std::string_view text);

/// True for the process names of mpirun and of its aliases.
bool is_mpirun(std::string_view process_name);

/// Adds to variables (NAME=value) that only one generation's launcher reads the other generation's names with the same
/// values. Variables that are set already keep their values. Both generations read parameters of MPI itself, such as
/// OMPI_MCA_btl_tcp_if_include.
std::vector<std::string> for_both_launchers(std::vector<std::string> variables);

}  // namespace babelring::open_mpi
