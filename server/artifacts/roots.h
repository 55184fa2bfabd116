#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace babelring::artifacts {

/// Canonical folders. Files of runs are read and removed only below one of them.
using Roots = std::vector<std::filesystem::path>;

/// The canonical path of a folder that a worker reported, which need not exist. Nothing if it is not absolute, lies
/// below no root or is not called `name`.
std::optional<std::filesystem::path> folder_below(const Roots& roots, const std::filesystem::path& reported,
                                                  const std::string& name);

}  // namespace babelring::artifacts
