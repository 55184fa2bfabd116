#include "tests/nmt/ops/cuda/emulation/fiber.h"

#include <sys/mman.h>

#include "base/failure.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

// Saves the registers that the calling convention preserves, and continues on another stack left in the same way.
extern "C" void babelring_switch_stacks(void** left, void* taken);
#if defined(__x86_64__)
asm(R"(
.text
.hidden babelring_switch_stacks
.globl babelring_switch_stacks
.type babelring_switch_stacks, @function
babelring_switch_stacks:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size babelring_switch_stacks, .-babelring_switch_stacks
)");
#else
#error "the switch between stacks is written for x86-64, as are the kernels of nmt/ops/cpu"
#endif

namespace babelring::emulation {

namespace {

constexpr std::size_t guard_bytes = 4096;
constexpr std::size_t usable_bytes = std::size_t{128} << 10;

Fiber* running_fiber = nullptr;
Fiber* left_fiber = nullptr;

}  // namespace

Fiber::Fiber(Entry entry) : entry_(entry) {
  void* pages = ::mmap(nullptr, guard_bytes + usable_bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (pages == MAP_FAILED) fail("emulated threads: no memory for a stack");
  pages_ = static_cast<std::byte*>(pages);
  ::mprotect(pages, guard_bytes, PROT_NONE);
  stack_bottom_ = pages_ + guard_bytes;
  stack_bytes_ = usable_bytes;
  rewind();
}

Fiber::~Fiber() {
  if (pages_ != nullptr) ::munmap(pages_, guard_bytes + usable_bytes);
}

void Fiber::rewind() {
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(stack_bottom_, stack_bytes_);
#endif
  fake_stack_ = nullptr;
  // Like babelring_switch_stacks leaves a stack: six registers, where to go on, and above it where begin() would
  // return.
  auto** top = reinterpret_cast<void**>(pages_ + guard_bytes + usable_bytes);
  top[-1] = nullptr;
  top[-2] = reinterpret_cast<void*>(&Fiber::begin);
  for (int saved = 3; saved <= 8; ++saved) top[-saved] = nullptr;
  stack_pointer_ = top - 8;
}

void Fiber::begin() {
  running_fiber->arrive();
  running_fiber->entry_();
}

void Fiber::arrive() {
#if defined(__SANITIZE_ADDRESS__)
  const void* bottom = nullptr;
  std::size_t bytes = 0;
  __sanitizer_finish_switch_fiber(fake_stack_, &bottom, &bytes);
  if (left_fiber->pages_ == nullptr) left_fiber->stack_bottom_ = bottom, left_fiber->stack_bytes_ = bytes;
#endif
}

Fiber& Fiber::running() {
  return *running_fiber;
}

void Fiber::switch_to(Fiber& next) {
  left_fiber = this;
  running_fiber = &next;
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&fake_stack_, next.stack_bottom_, next.stack_bytes_);
#endif
  babelring_switch_stacks(&stack_pointer_, next.stack_pointer_);
  arrive();
}

}  // namespace babelring::emulation
