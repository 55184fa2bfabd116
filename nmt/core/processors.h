#pragma once

#include <filesystem>
#include <vector>

namespace babelring {

/// The CPUs that a process may use.
struct Processors {
  std::vector<int> allowed;  // CPU numbers of its affinity mask, ascending
  double quota = 0;          // CPU quota of its control group, in CPUs; 0: no limit

  /// Number of threads that can run at the same time, at least 1.
  int count() const;
};

/// The smallest CPU quota among this process's control group and its ancestors, in CPUs; 0: no limit. Reads cpu.max of
/// cgroup version 2 and cpu.cfs_quota_us of version 1. Tests pass their own paths.
double processor_quota(const std::filesystem::path& proc = "/proc",
                       const std::filesystem::path& groups = "/sys/fs/cgroup");

/// Affinity and quota of this process.
Processors own_processors();

/// Number of threads for rank `own` among the ranks of one host, at least 1. Each CPU is divided among the ranks that
/// may run on it; the quota is divided among all ranks.
int threads_of_rank(const std::vector<Processors>& ranks, std::size_t own);

}  // namespace babelring
