#include "nmt/train/free_memory.h"

#include <fmt/format.h>

#include <algorithm>

namespace babelring {

std::size_t arena_room(const Backend& backend, const Communicator& communicator, const MemoryInfo& room) {
  const auto margin = static_cast<std::size_t>(static_cast<double>(room.total) * memory_margin) +
                      (backend.host_memory() ? 0 : device_margin_bytes);
  const std::size_t left = room.free - std::min(room.free, margin);
  return backend.host_memory() ? left / static_cast<std::size_t>(communicator.local_size()) : left;
}

std::string room_text(std::size_t usable, const MemoryInfo& room) {
  const auto gib = [](std::size_t bytes) { return static_cast<double>(bytes) / (1 << 30); };
  return fmt::format("rank 0 may use {:.2f} GiB, {:.2f} of {:.2f} GiB were free", gib(usable), gib(room.free),
                     gib(room.total));
}

std::string too_little_text(std::size_t usable, const MemoryInfo& room) {
  return fmt::format("a rank may use {}: {} of {} bytes are free", usable, room.free, room.total);
}

std::int64_t max_fitting(std::int64_t min, std::int64_t max, std::int64_t tolerance,
                         const std::function<bool(std::int64_t size)>& fits) {
  if (!fits(min)) return 0;
  if (max <= min || fits(max)) return std::max(min, max);
  std::int64_t low = min, high = max;
  while (high - low > std::max(tolerance, low / 100)) {
    const std::int64_t middle = low + (high - low) / 2;
    (fits(middle) ? low : high) = middle;
  }
  return low;
}

std::int64_t min_over_ranks(std::int64_t mine, Communicator& communicator) {
  std::int64_t min = mine;
  for (const std::string& theirs : communicator.all_gather(std::to_string(mine))) {
    min = std::min<std::int64_t>(min, std::stoll(theirs));
  }
  return min;
}

}  // namespace babelring
