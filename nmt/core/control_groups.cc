#include "nmt/core/control_groups.h"

#include <fstream>

namespace babelring {
namespace {

namespace fs = std::filesystem;

/// The root of a hierarchy, then each group on the path to `own`.
void add_groups(fs::path root, const fs::path& own, std::vector<fs::path>& found) {
  found.push_back(root);
  for (const fs::path& part : own) found.push_back(root /= part);
}

}  // namespace

std::vector<fs::path> control_groups(const std::string& controller, const fs::path& proc, const fs::path& groups) {
  std::vector<fs::path> found{groups};  // also where the kernel does not say
  std::ifstream in(proc / "self/cgroup");
  // "0::/job/task" is of version 2, "4:cpu,cpuacct:/job/task" of version 1.
  for (std::string line; std::getline(in, line);) {
    const std::size_t first = line.find(':'), second = line.find(":/", first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), own = line.substr(second + 2);
    if (controllers.empty()) add_groups(groups, own, found);
    if (("," + controllers + ",").find("," + controller + ",") == std::string::npos) continue;
    add_groups(fs::exists(groups / controllers) ? groups / controllers : groups / controller, own, found);
  }
  return found;
}

}  // namespace babelring
