#pragma once

#include <vector_types.h>

#include <cstddef>
#include <functional>
#include <source_location>
#include <string>

/// CUDA's threads on the CPU, for tests: kernels compiled as C++ run with every thread on a stack of its own. Threads
/// give way only where they wait for each other, so one runs at a time; in what order, chance decides anew each time.
/// One grid at a time: callers hold a lock.
namespace babelring::emulation {

inline constexpr int warp_lanes = 32;
inline constexpr std::size_t max_shared_bytes = 227 << 10;  // dynamic, of a block, on Hopper

/// Runs `thread` for each thread of a grid. Blocks come one after the other in random order, each with shared memory
/// full of NaN. `overlaps`: the kernel may begin before the one before it has ended, so each of its threads has to wait
/// for that. Returns what went wrong in one line, or nothing.
std::string run_grid(dim3 grid, dim3 block, std::size_t shared_bytes, bool overlaps,
                     const std::function<void()>& thread);

// The rest is for the running threads.

/// Ends the grid. Nothing on the thread's stack is destroyed: callers leave no memory behind there.
[[noreturn]] void fault(std::string&& text);

/// Notes that the running thread has waited for earlier kernels.
void await_earlier_kernels();

/// Returns when all threads of the block that have not ended are here.
void meet_block(std::source_location where);

/// The values that lanes exchange when they meet.
struct Meeting {
  unsigned present = 0;  // a bit a lane
  const void* in[warp_lanes];
  void* out[warp_lanes];
};
using Combine = void (*)(Meeting& meeting);

/// Returns when all lanes of the mask that have not ended are here; the last one calls `combine` for all of them.
void meet_lanes(unsigned mask, const void* in, void* out, Combine combine, const char* what,
                std::source_location where);
int own_lane();

/// cp.async: bytes that are on their way to shared memory. They arrive when the thread waits for them, until then the
/// place holds NaN. A null source gives zeros.
void begin_copy(void* to, const void* from, std::size_t bytes);
void commit_copies();
void wait_copies(int groups_left);

}  // namespace babelring::emulation
