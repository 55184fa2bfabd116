#pragma once

#include "nmt/ops/cuda/handles.h"

namespace babelring::cuda {

using Graph = Owned<cudaGraph_t, cudaGraphDestroy>;
using GraphExec = Owned<cudaGraphExec_t, cudaGraphExecDestroy>;

/// Records the work submitted to a stream, from construction to finish(), instead of running it.
class Capture {
 public:
  explicit Capture(cudaStream_t stream);
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  /// Ends the recording and returns it, ready to launch. Throws Failure.
  GraphExec finish();

 private:
  cudaStream_t stream_;
  bool open_ = false;
};

}  // namespace babelring::cuda
