#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string_view>
#include <type_traits>
#include <utility>

#include "nmt/ops/cuda/handles.h"
#include "nmt/ops/cuda/work_log.h"

namespace babelring::cuda {

/// Registers that ptxas needs differ between architectures. For this many blocks at once, kernels were tuned on Hopper:
/// `tuned` there; elsewhere at most 2, where none keeps registers in memory.
constexpr int bound_blocks(int tuned) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ != 900
  return tuned < 2 ? tuned : 2;
#else
  return tuned;
#endif
}

/// Raises the kernel's limit of dynamic shared memory on the current device to at least `bytes`. It is never lowered: a
/// recorded launch runs under the limit of the time when its graph is launched. From any thread.
void allow_shared_memory(std::string_view what, const void* kernel, std::size_t bytes);

/// Where and how wide a kernel runs.
struct LaunchShape {
  dim3 grid, block;  // blocks of a grid, threads of a block
  WorkStream stream;
  std::size_t shared_bytes = 0;  // what dynamic_shared() gives
};

/// Launches a kernel, or writes it to the stream's log. Throws Failure with `what`, the op's name, if it cannot be. In
/// this form, not as kernel<<<…>>>, the sources are also C++, and the tests run them without a device.
template <class... Parameters, class... Arguments>
void launch(std::string_view what, const LaunchShape& place, void (*kernel)(Parameters...), Arguments&&... arguments) {
  if (WorkLog* log = place.stream.log()) {
    log->add(kernel);
    log->add(place.grid);
    log->add(place.block);
    log->add(place.shared_bytes);
    (log->add<std::remove_cv_t<Parameters>>(arguments), ...);
    return;
  }
  constexpr std::size_t free_for_all = 48 << 10;  // more shared memory is for kernels that ask for it
  if (place.shared_bytes > free_for_all) {
    allow_shared_memory(what, reinterpret_cast<const void*>(kernel), place.shared_bytes);
  }
  cudaLaunchConfig_t config{};
  config.gridDim = place.grid;
  config.blockDim = place.block;
  config.dynamicSmemBytes = place.shared_bytes;
  config.stream = place.stream.handle();
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &overlap;
  config.numAttrs = place.stream.overlaps() ? 1 : 0;
  require(cudaLaunchKernelEx(&config, kernel, std::forward<Arguments>(arguments)...), what);
}

}  // namespace babelring::cuda
