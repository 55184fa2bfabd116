#pragma once

#include <string>
#include <vector>

#include "nmt/comm/communicator.h"
#include "nmt/core/machine.h"

namespace babelring {

/// The number of compute threads of each rank on a host.
struct HostThreads {
  std::vector<int> of_rank;
  std::string warning;  // if the host has fewer processors than threads; otherwise empty
};

/// `ranks`: the processors that each rank on `host` may use. `wanted`: threads per rank; 0 divides the processors
/// evenly.
HostThreads divide_processors(const std::vector<Processors>& ranks, int wanted, const std::string& host);

/// The number of compute threads of this rank. Collective. The first rank of a host logs the warning of
/// divide_processors().
int choose_threads(int wanted, Communicator& communicator);

}  // namespace babelring
