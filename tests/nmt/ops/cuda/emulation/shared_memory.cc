#include "tests/nmt/ops/cuda/emulation/shared_memory.h"

#include <link.h>

#include <algorithm>
#include <cstring>

#include "base/failure.h"
#include "tests/nmt/ops/cuda/emulation/threads.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace babelring::cuda {

/// The memory that dynamic_shared() of nmt/ops/cuda/device_math.cuh declares.
alignas(128) thread_local unsigned char dynamic_shared_bytes[emulation::max_shared_bytes];

}  // namespace babelring::cuda

namespace babelring::emulation {

namespace {

struct Module {
  std::uintptr_t inside;  // an address in it
  std::byte* begin = nullptr;
  std::size_t bytes = 0;
};

/// The calling thread's copy of the thread-local variables of the module that `found` lies in.
int look_for(dl_phdr_info* info, std::size_t, void* found) {
  auto& module = *static_cast<Module*>(found);
  bool here = false;
  std::size_t bytes = 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& part = info->dlpi_phdr[i];
    const std::uintptr_t begin = info->dlpi_addr + part.p_vaddr;
    if (part.p_type == PT_LOAD && module.inside >= begin && module.inside < begin + part.p_memsz) here = true;
    if (part.p_type == PT_TLS) bytes = part.p_memsz;
  }
  if (!here) return 0;
  module.begin = static_cast<std::byte*>(info->dlpi_tls_data);
  module.bytes = bytes;
  return 1;
}

std::byte* dynamic_part() {
  return reinterpret_cast<std::byte*>(cuda::dynamic_shared_bytes);
}

}  // namespace

SharedMemory::SharedMemory(std::size_t dynamic_bytes) : dynamic_bytes_(dynamic_bytes) {
  std::byte* const begin = dynamic_part();
  std::byte* const end = begin + max_shared_bytes;
  std::memset(begin, 0xff, 1);  // so that this thread has them
  Module module{reinterpret_cast<std::uintptr_t>(&look_for)};
  ::dl_iterate_phdr(look_for, &module);
  if (begin < module.begin || end > module.begin + module.bytes) {
    fail("emulated threads: shared memory was not found among the thread-local variables");
  }
  arrays_ = {{module.begin, begin}, {end, module.begin + module.bytes}};
  for (const Range& range : arrays_) before_.insert(before_.end(), range.begin, range.end);
#if defined(__SANITIZE_ADDRESS__)
  __asan_poison_memory_region(begin + dynamic_bytes_, max_shared_bytes - dynamic_bytes_);
#endif
}

SharedMemory::~SharedMemory() {
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(dynamic_part(), max_shared_bytes);
#endif
  auto from = before_.begin();
  for (const Range& range : arrays_) {
    std::copy_n(from, range.end - range.begin, range.begin);
    from += range.end - range.begin;
  }
}

void SharedMemory::spoil() {
  for (const Range& range : arrays_) std::fill(range.begin, range.end, std::byte{0xff});
  std::memset(dynamic_part(), 0xff, dynamic_bytes_);
}

}  // namespace babelring::emulation
