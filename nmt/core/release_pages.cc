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
  // MADV_REMOVE frees pages of shared memory only, MADV_DONTNEED of private memory only.
  if (::madvise(first, end - begin, MADV_REMOVE) != 0) ::madvise(first, end - begin, MADV_DONTNEED);
}

}  // namespace babelring
