#pragma once

#include <functional>
#include <optional>
#include <string>

namespace babelring {

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

}  // namespace babelring
