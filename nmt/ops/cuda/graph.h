#pragma once

#include <vector>

#include "nmt/core/tensor.h"
#include "nmt/ops/cuda/device_lists.h"
#include "nmt/ops/cuda/handles.h"

namespace babelring::cuda {

using Graph = Owned<cudaGraph_t, cudaGraphDestroy>;
using GraphExec = Owned<cudaGraphExec_t, cudaGraphExecDestroy>;

/// Work recorded as a CUDA graph, with what it points to.
struct RecordedWork {
  GraphExec graph;
  DeviceLists::Pinned lists;
  ConstTensor result;
  double flops = 0;
};

/// While it lives, what is given to the stream is recorded instead of run, and lists stay on the device with the
/// recording.
class Capture {
 public:
  Capture(cudaStream_t stream, DeviceLists& lists);
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  /// Ends it. The result and the operations are the caller's to fill in.
  RecordedWork finish();

 private:
  cudaStream_t stream_;
  DeviceLists& lists_;
  DeviceLists::Pinned pinned_;
  bool open_ = false;
};

}  // namespace babelring::cuda
