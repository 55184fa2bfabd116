#pragma once

#include <cstddef>
#include <filesystem>

namespace babelring {

/// Bytes of a memory: still available, and in all.
struct MemoryRoom {
  std::size_t free = 0, total = 0;
};

/// The host's memory as far as this process may use it: what the kernel says is available, or less where the process's
/// control group, of version 1 or 2, or one above it has a limit. Zeros where the kernel does not say. The paths are
/// for tests.
MemoryRoom host_memory_room(const std::filesystem::path& proc = "/proc",
                            const std::filesystem::path& groups = "/sys/fs/cgroup");

}  // namespace babelring
