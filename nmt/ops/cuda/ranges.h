#pragma once

namespace babelring::cuda {

/// NVTX ranges of this thread, nested, which Nsight shows beside the kernels launched in them. Where no tool is
/// attached they cost a branch each.
void begin_range(const char* name);
void end_range();

}  // namespace babelring::cuda
