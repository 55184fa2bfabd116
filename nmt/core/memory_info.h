#pragma once

#include <cstddef>
#include <filesystem>

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

}  // namespace babelring
