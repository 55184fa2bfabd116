#pragma once

#include <cstddef>
#include <filesystem>

namespace babelring {

/// Bytes of a memory that can still be had, and that are there.
struct MemoryRoom {
  std::size_t free = 0, total = 0;
};

/// Of this machine, for this process: what the kernel says is available, or what the process's control group leaves
/// where that is less. Zeros where the kernel does not say. The paths are for tests.
MemoryRoom host_memory_room(const std::filesystem::path& meminfo = "/proc/meminfo",
                            const std::filesystem::path& group = "/sys/fs/cgroup");

}  // namespace babelring
