#include "nmt/core/memory_room.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>

namespace babelring {

namespace {

/// The first number of a file of one word; absent for a word such as "max".
std::optional<std::size_t> number_in(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::size_t number = 0;
  return in >> number ? std::optional(number) : std::nullopt;
}

/// The number behind a name in a file of lines "name number"; 0 if there is none.
std::size_t number_of(const std::filesystem::path& file, const std::string& wanted) {
  std::ifstream in(file);
  std::string name;
  for (std::size_t number = 0; in >> name >> number;) {
    if (name == wanted) return number;
  }
  return 0;
}

}  // namespace

MemoryRoom host_memory_room(const std::filesystem::path& meminfo, const std::filesystem::path& group) {
  MemoryRoom room;
  std::ifstream in(meminfo);
  std::string key, unit;
  for (std::size_t kib = 0; in >> key >> kib; std::getline(in, unit)) {
    if (key == "MemTotal:") room.total = kib * 1024;
    if (key == "MemAvailable:") room.free = kib * 1024;
  }
  const auto most = number_in(group / "memory.max"), used = number_in(group / "memory.current");
  if (most && used && *most < room.total) {
    room.total = *most;
    // Pages of files that were read or written once, such as checkpoints, count as used, but make room when asked.
    const std::size_t kept = *used - std::min(*used, number_of(group / "memory.stat", "inactive_file"));
    room.free = std::min(room.free, *most - std::min(*most, kept));
  }
  return room;
}

}  // namespace babelring
