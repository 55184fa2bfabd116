#pragma once

namespace babelring::cuda {

/// Begin and end an NVTX range of the calling thread. Ranges nest. Nsight shows them beside the kernels launched in
/// them. Each costs a branch if no tool is attached.
void begin_range(const char* name);
void end_range();

}  // namespace babelring::cuda
