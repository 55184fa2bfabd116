#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace babelring {

/// Folders of the control groups whose limits of a controller ("cpu", "memory") bind this process: of versions 1 and 2,
/// of its own group and of each above it, a group after those above it. `proc` is the process's /proc, `groups` is
/// /sys/fs/cgroup. A folder may be absent, as in a container, which sees its own group as the root.
std::vector<std::filesystem::path> control_groups(const std::string& controller, const std::filesystem::path& proc,
                                                  const std::filesystem::path& groups);

}  // namespace babelring
