#include "nmt/core/release_pages.h"

#include <sys/mman.h>

#include <cstdint>

namespace babelring {

void release_pages(void* data, std::size_t bytes) {
  constexpr std::uintptr_t page = 4096;
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  const std::uintptr_t begin = (address + page - 1) / page * page, end = (address + bytes) / page * page;
  if (begin >= end) return;
  void* first = static_cast<char*>(data) + (begin - address);
  // Of shared memory only this frees pages, of private memory only the other.
  if (::madvise(first, end - begin, MADV_REMOVE) != 0) ::madvise(first, end - begin, MADV_DONTNEED);
}

}  // namespace babelring
