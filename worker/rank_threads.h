#pragma once

#include <string>
#include <vector>

#include "nmt/comm/communicator.h"
#include "nmt/core/processors.h"

namespace babelring {

/// Threads of the ranks of one host, `wanted` each, or 0: their share of the processors.
struct HostThreads {
  std::vector<int> of_rank;
  std::string warning;  // where they are more than the processors; else empty
};

/// `ranks`: what each rank of `host` may use.
HostThreads divide_processors(const std::vector<Processors>& ranks, int wanted, const std::string& host);

/// Threads that this rank computes with. Every rank calls it. The first rank of a host logs a warning where its ranks
/// together have more threads than processors.
int choose_threads(int wanted, Communicator& communicator);

}  // namespace babelring
