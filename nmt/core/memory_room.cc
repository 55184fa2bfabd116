#include "nmt/core/memory_room.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>

namespace babelring {

namespace {

/// The number in a file; absent for a word such as "max".
std::optional<std::size_t> number_in(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::size_t number = 0;
  return in >> number ? std::optional(number) : std::nullopt;
}

/// The number after a name in a file of lines "name number"; 0 if there is none.
std::size_t number_of(const std::filesystem::path& file, const std::string& wanted) {
  std::ifstream in(file);
  std::string name;
  for (std::size_t number = 0; in >> name >> number;) {
    if (name == wanted) return number;
  }
  return 0;
}

/// Narrows the room to what a control group allows, and leaves, the processes in it and below it.
void apply_limit(const std::filesystem::path& group, MemoryRoom& room) {
  const auto most = number_in(group / "memory.max"), used = number_in(group / "memory.current");
  if (!most || !used || *most >= room.total) return;
  room.total = *most;
  // Pages of files that were read or written once, such as checkpoints, count as used, but are given up on demand.
  const std::size_t kept = *used - std::min(*used, number_of(group / "memory.stat", "inactive_file"));
  room.free = std::min(room.free, *most - std::min(*most, kept));
}

/// The process's control group below the root that it sees: "system.slice/babelring.service". Empty in a container
/// with a root of its own.
std::filesystem::path own_group(const std::filesystem::path& proc) {
  const std::string version_2 = "0::/";
  std::ifstream in(proc / "self/cgroup");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(version_2)) return line.substr(version_2.size());
  }
  return {};
}

}  // namespace

MemoryRoom host_memory_room(const std::filesystem::path& proc, const std::filesystem::path& groups) {
  MemoryRoom room;
  std::ifstream in(proc / "meminfo");
  std::string key, unit;
  for (std::size_t kib = 0; in >> key >> kib; std::getline(in, unit)) {
    if (key == "MemTotal:") room.total = kib * 1024;
    if (key == "MemAvailable:") room.free = kib * 1024;
  }
  apply_limit(groups, room);
  std::filesystem::path group = groups;
  for (const std::filesystem::path& part : own_group(proc)) apply_limit(group /= part, room);
  return room;
}

}  // namespace babelring
