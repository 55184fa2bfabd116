#pragma once

#include <functional>
#include <optional>
#include <string>

namespace babelring {

/// How many ranks the launcher of this process says that it started, and the environment variable that says so.
struct PromisedRanks {
  int ranks = 1;
  std::string variable;
};

/// Looks up an environment variable; null if it is not set.
using Environment = std::function<const char*(const char* name)>;

/// Read it before MPI_Init, which sets variables itself. Under Open MPI's mpirun its own variable decides: what Slurm
/// says of the allocation, or a cluster of all its jobs, does not matter then.
std::optional<PromisedRanks> find_promised_ranks(const Environment& environment);

/// Throws UsageFailure, saying how to launch, if more ranks were promised than MPI has: each process would train alone.
void require_promised_ranks(const std::optional<PromisedRanks>& promised, int ranks);

}  // namespace babelring
