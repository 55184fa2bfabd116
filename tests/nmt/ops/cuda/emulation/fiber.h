#pragma once

#include <cstddef>
#include <memory>

namespace babelring::emulation {

/// A stack of its own and where its code stopped. One runs at a time; who runs gives way by switch_to().
class Fiber {
 public:
  using Entry = void (*)();

  /// The stack that is running now; it has to give way before any other fiber runs.
  Fiber() = default;
  /// Calls `entry`, which must not return, when it is first switched to.
  explicit Fiber(Entry entry);
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;
  ~Fiber();

  static Fiber& running();
  /// From this fiber, which is running, to another. Returns when somebody switches back.
  void switch_to(Fiber& next);
  /// Discards its state: the next switch to it calls its entry again. Objects on its stack are not destroyed.
  void rewind();

 private:
  static void begin();
  void arrive();

  Entry entry_ = nullptr;
  std::byte* pages_ = nullptr;
  void* stack_pointer_ = nullptr;
  void* fake_stack_ = nullptr;          // the address sanitizer's
  const void* stack_bottom_ = nullptr;  // of the usable stack
  std::size_t stack_bytes_ = 0;
};

}  // namespace babelring::emulation
