#include "tests/nmt/ops/cuda/emulation/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <memory>

namespace babelring::emulation {

void* Memory::allocate(std::size_t bytes, Place place) {
  constexpr std::size_t alignment = 256, large = std::size_t{4} << 20;
  if (bytes > unused()) return nullptr;
  // Small blocks end where they end, so that the address sanitizer sees what reaches beyond.
  void *origin = nullptr, *data = nullptr;
  if (bytes < large) {
    if (::posix_memalign(&origin, alignment, bytes) != 0) return nullptr;
    data = origin;
  } else {
    std::size_t room = bytes + alignment;
    origin = data = std::calloc(room, 1);
    if (origin == nullptr || std::align(alignment, bytes, data, room) == nullptr) return nullptr;
  }
  if (bytes < large) std::memset(data, 0xff, bytes);
  blocks_[reinterpret_cast<std::uintptr_t>(data)] = {bytes, place, origin};
  used_ += bytes;
  untouched_ = bytes < large ? nullptr : data;
  untouched_bytes_ = bytes;
  return data;
}

bool Memory::release(void* data, Place place) {
  const auto block = blocks_.find(reinterpret_cast<std::uintptr_t>(data));
  if (block == blocks_.end() || block->second.place != place) return false;
  used_ -= block->second.bytes;
  std::free(block->second.origin);
  blocks_.erase(block);
  return true;
}

const Memory::Block* Memory::block_at(std::uintptr_t address, std::uintptr_t* begin) const {
  auto after = blocks_.upper_bound(address);
  if (after == blocks_.begin()) return nullptr;
  --after;
  *begin = after->first;
  return address <= after->first + after->second.bytes ? &after->second : nullptr;
}

bool Memory::holds(const void* data, std::size_t bytes, Place place) const {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  std::uintptr_t begin = 0;
  const Block* block = block_at(address, &begin);
  return block != nullptr && block->place == place && address + bytes <= begin + block->bytes;
}

std::uintptr_t Memory::find_host_address(const void* argument, std::size_t bytes) const {
  // Where Linux on x86-64 puts programs, libraries, heaps and stacks, also under the address sanitizer.
  constexpr std::uintptr_t lowest = 0x5000'0000'0000, highest = 0x7fff'ffff'ffff;
  static const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  for (std::size_t at = 0; at + sizeof(std::uintptr_t) <= bytes; at += sizeof(std::uintptr_t)) {
    std::uintptr_t word = 0, begin = 0;
    std::memcpy(&word, static_cast<const std::byte*>(argument) + at, sizeof word);
    if (word < lowest || word > highest || block_at(word, &begin) != nullptr) continue;
    // Padding and random keys may look like addresses, but hardly like those of memory that there is.
    unsigned char present = 0;
    if (::mincore(reinterpret_cast<void*>(word / page * page), 1, &present) == 0) return word;
  }
  return 0;
}

}  // namespace babelring::emulation
