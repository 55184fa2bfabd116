#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace babelring {

/// Free and total bytes of a host's or device's memory.
struct MemoryInfo {
  std::size_t free = 0, total = 0;
};

/// Host memory that this process may use: MemAvailable and MemTotal of /proc/meminfo, reduced to the limits of the
/// process's control group (version 1 or 2) and its ancestors. Zeros if the kernel does not report them. Tests pass
/// their own paths.
MemoryInfo host_memory_info(const std::filesystem::path& proc = "/proc",
                            const std::filesystem::path& groups = "/sys/fs/cgroup");

/// Folders of the control groups whose limits of a controller ("cpu", "memory") bind this process: of versions 1 and 2,
/// the outermost group first, its own last. `proc` is the process's /proc, `groups` is
/// /sys/fs/cgroup. A folder may be absent, as in a container, which sees its own group as the root.
std::vector<std::filesystem::path> control_groups(const std::string& controller, const std::filesystem::path& proc,
                                                  const std::filesystem::path& groups);

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
