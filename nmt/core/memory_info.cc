#include "nmt/core/memory_info.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>

#include "nmt/core/control_groups.h"

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

}  // namespace babelring
