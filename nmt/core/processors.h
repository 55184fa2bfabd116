#pragma once

#include <filesystem>
#include <vector>

namespace babelring {

/// What a process may use of its host's processors.
struct Processors {
  std::vector<int> allowed;  // numbers of those it may run on (affinity), ascending
  double quota = 0;          // how many of them in time (CPU quota of its control group); 0: no limit

  /// Threads that can compute at the same time: at least 1.
  int count() const;
};

/// How many processors in time the CPU quota of this process's control group, or the least one of those above it,
/// amounts to (cpu.max of version 2, cpu.cfs_quota_us of version 1); 0: no limit. The paths are for tests.
double processor_quota(const std::filesystem::path& proc = "/proc",
                       const std::filesystem::path& groups = "/sys/fs/cgroup");

/// Of this process.
Processors own_processors();

/// Threads for the rank `own` of the ranks of one host: its share of the processors, where each is divided among the
/// ranks that may run on it, and of the quota, which all share. At least 1.
int threads_of_rank(const std::vector<Processors>& ranks, std::size_t own);

}  // namespace babelring
