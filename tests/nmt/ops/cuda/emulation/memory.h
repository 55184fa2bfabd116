#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace babelring::emulation {

enum class Place { device, pinned };

/// The memory that was allocated and not freed: of the device, and of the host as far as the device may read it. From
/// malloc, so that the address sanitizer watches over it, and full of NaN, but for large blocks, which are zero.
class Memory {
 public:
  static constexpr std::size_t installed = std::size_t{8} << 30;

  /// Null if it does not fit.
  void* allocate(std::size_t bytes, Place place);
  /// False if there is nothing such.
  bool release(void* data, Place place);
  bool holds(const void* data, std::size_t bytes, Place place) const;
  std::size_t unused() const { return installed - used_; }
  /// Whether these bytes are zero for sure: a large block that nothing was done with since it was allocated. Clearing
  /// such a block again would take most of a test's time.
  bool still_zero(const void* data, std::size_t bytes) const { return data == untouched_ && bytes == untouched_bytes_; }
  /// Something is about to be done.
  void touch() { untouched_ = nullptr; }
  /// The first word of an argument that is an address in memory which only the host sees; 0 if there is none.
  std::uintptr_t find_host_address(const void* argument, std::size_t bytes) const;

 private:
  struct Block {
    std::size_t bytes;
    Place place;
    void* origin;  // what malloc gave
  };
  /// The block that an address lies in or at the end of.
  const Block* block_at(std::uintptr_t address, std::uintptr_t* begin) const;

  std::map<std::uintptr_t, Block> blocks_;
  std::size_t used_ = 0, untouched_bytes_ = 0;
  const void* untouched_ = nullptr;
};

}  // namespace babelring::emulation
