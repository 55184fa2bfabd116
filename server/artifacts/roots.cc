#include "server/artifacts/roots.h"

#include <algorithm>
#include <system_error>

namespace babelring::artifacts {
namespace {

namespace fs = std::filesystem;

bool lies_below(const fs::path& root, const fs::path& path) {
  const auto [in_root, in_path] = std::mismatch(root.begin(), root.end(), path.begin(), path.end());
  return in_root == root.end() && in_path != path.end();
}

}  // namespace

std::optional<fs::path> folder_below(const Roots& roots, const fs::path& reported, const std::string& name) {
  std::error_code error;
  fs::path folder = fs::weakly_canonical(reported, error);
  if (error || !reported.is_absolute() || folder.filename() != name) return std::nullopt;
  if (std::none_of(roots.begin(), roots.end(), [&](const auto& root) { return lies_below(root, folder); })) {
    return std::nullopt;
  }
  return folder;
}

}  // namespace babelring::artifacts
