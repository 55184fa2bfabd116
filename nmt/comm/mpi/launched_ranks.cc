#include "nmt/comm/mpi/launched_ranks.h"

#include <string_view>

#include "base/failure.h"
#include "base/parse_number.h"

namespace babelring {
namespace {

/// Returns 0 if the variable is not set or not a number.
int number_in(const Environment& environment, const char* name) {
  const char* text = environment(name);
  return text == nullptr ? 0 : parse_number<int>(text).value_or(0);
}

}  // namespace

std::optional<LaunchedRanks> find_launched_ranks(const Environment& environment) {
  // Order matters: a Slurm step's task count takes precedence over its allocation's.
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "PMI_SIZE", "WORLD_SIZE"}) {
    if (const int ranks = number_in(environment, name); ranks > 0) return LaunchedRanks{ranks, name};
  }
  return std::nullopt;
}

void require_launched_ranks(const std::optional<LaunchedRanks>& promised, int ranks) {
  if (!promised || promised->ranks <= ranks) return;
  const bool slurm = promised->variable.starts_with("SLURM_");
  throw UsageFailure(fmt::format(
      "{}={} promises {} ranks, but MPI has {}: each process would train by itself; start them by `mpirun -np {} "
      "worker …`{}, or unset {} to train with {}",
      promised->variable, promised->ranks, promised->ranks, ranks, promised->ranks,
      slurm ? " or `srun --mpi=pmix worker …`" : " of Open MPI", promised->variable, ranks));
}

}  // namespace babelring
