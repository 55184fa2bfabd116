#include "nmt/core/machine.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <optional>
#include <string>
#include <thread>

namespace babelring {
namespace {

/// The number in a file; nullopt if the file is missing or holds a word such as "max".
std::optional<std::size_t> number_in(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::size_t number = 0;
  return in >> number ? std::optional(number) : std::nullopt;
}

/// The value of `key` in a file of "key value" lines; 0 if absent.
std::size_t number_of(const std::filesystem::path& file, const std::string& key) {
  std::ifstream in(file);
  std::string name;
  for (std::size_t number = 0; in >> name >> number;) {
    if (name == key) return number;
  }
  return 0;
}

/// The files of a control group that hold its memory limit and use, and the member of memory.stat for file pages that
/// were used once. The numbers include those of the groups below it.
struct MemoryFiles {
  const char *limit, *used, *inactive_file;
};
constexpr MemoryFiles version_2{"memory.max", "memory.current", "inactive_file"},
    version_1{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"};

/// Reduces `room` to a control group's limit and to the part of the limit that the group has not used.
void apply_limit(const std::filesystem::path& group, const MemoryFiles& files, MemoryInfo& room) {
  const auto limit = number_in(group / files.limit), used = number_in(group / files.used);
  if (!limit || !used || *limit >= room.total) return;
  room.total = *limit;
  // The use includes the page cache. The kernel reclaims its inactive part (such as written checkpoints) on demand.
  const std::size_t unreclaimable = *used - std::min(*used, number_of(group / "memory.stat", files.inactive_file));
  room.free = std::min(room.free, *limit - std::min(*limit, unreclaimable));
}

}  // namespace

MemoryInfo host_memory_info(const std::filesystem::path& proc, const std::filesystem::path& groups) {
  MemoryInfo room;
  std::ifstream in(proc / "meminfo");
  std::string key, unit;
  for (std::size_t kib = 0; in >> key >> kib; std::getline(in, unit)) {
    if (key == "MemTotal:") room.total = kib * 1024;
    if (key == "MemAvailable:") room.free = kib * 1024;
  }
  for (const std::filesystem::path& group : control_groups("memory", proc, groups)) {
    apply_limit(group, version_2, room);
    apply_limit(group, version_1, room);
  }
  return room;
}

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

namespace {

namespace fs = std::filesystem;

/// The group's own quota in CPUs.
std::optional<double> quota_of(const fs::path& group) {
  double quota = 0, period = 0;
  if (std::ifstream(group / "cpu.max") >> quota >> period) return quota / period;  // "150000 100000", "max 100000"
  if (std::ifstream(group / "cpu.cfs_quota_us") >> quota && quota > 0 &&           // -1: none
      std::ifstream(group / "cpu.cfs_period_us") >> period) {
    return quota / period;
  }
  return std::nullopt;
}

}  // namespace

int Processors::count() const {
  const int number = static_cast<int>(allowed.size());
  const bool limited = quota > 0 && quota < number;
  return std::max(1, limited ? static_cast<int>(std::floor(quota)) : number);
}

double processor_quota(const fs::path& proc, const fs::path& groups) {
  double smallest = 0;
  for (const fs::path& group : control_groups("cpu", proc, groups)) {
    const std::optional<double> quota = quota_of(group);
    if (quota && *quota > 0) smallest = smallest > 0 ? std::min(smallest, *quota) : *quota;
  }
  return smallest;
}

Processors own_processors() {
  Processors own{.allowed = {}, .quota = processor_quota()};
  for (int size = CPU_SETSIZE; size <= 64 * CPU_SETSIZE; size *= 2) {
    cpu_set_t* set = CPU_ALLOC(size);
    const bool large_enough = sched_getaffinity(0, CPU_ALLOC_SIZE(size), set) == 0;
    for (int number = 0; large_enough && number < size; ++number) {
      if (CPU_ISSET_S(number, CPU_ALLOC_SIZE(size), set)) own.allowed.push_back(number);
    }
    CPU_FREE(set);
    if (large_enough) return own;
  }
  for (unsigned number = 0; number < std::max(1U, std::thread::hardware_concurrency()); ++number) {
    own.allowed.push_back(static_cast<int>(number));
  }
  return own;
}

int threads_of_rank(const std::vector<Processors>& ranks, std::size_t own) {
  double processors = 0;
  for (const int number : ranks[own].allowed) {
    const auto sharers = std::count_if(ranks.begin(), ranks.end(), [number](const Processors& rank) {
      return std::binary_search(rank.allowed.begin(), rank.allowed.end(), number);
    });
    processors += 1.0 / static_cast<double>(sharers);
  }
  const double quota = ranks[own].quota;
  if (quota > 0) processors = std::min(processors, quota / static_cast<double>(ranks.size()));
  return std::max(1, static_cast<int>(processors + 1e-6));
}

}  // namespace babelring
