#pragma once

#include <cstddef>
#include <vector>

namespace babelring::emulation {

/// Memory of a block. `__shared__` stands for thread_local: all such arrays of a module lie in one place, so that they
/// can be filled with NaN before each block. Whatever else is thread-local there gets its values back in the end.
class SharedMemory {
 public:
  /// With so much of it dynamic; the address sanitizer finds what reaches beyond.
  explicit SharedMemory(std::size_t dynamic_bytes);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  /// Fills it with bytes of ones: NaN in every format.
  void spoil();

 private:
  struct Range {
    std::byte* begin;
    std::byte* end;
  };
  std::size_t dynamic_bytes_;
  std::vector<Range> arrays_;  // this module's thread-local variables but for the dynamic part
  std::vector<std::byte> before_;
};

}  // namespace babelring::emulation
