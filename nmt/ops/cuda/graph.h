#pragma once

#include "nmt/ops/cuda/handles.h"

namespace babelring::cuda {

using Graph = Owned<cudaGraph_t, cudaGraphDestroy>;
using GraphExec = Owned<cudaGraphExec_t, cudaGraphExecDestroy>;

/// While it lives, what is given to the stream is recorded instead of run.
class Capture {
 public:
  explicit Capture(cudaStream_t stream);
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  /// Ends it.
  GraphExec finish();

 private:
  cudaStream_t stream_;
  bool open_ = false;
};

}  // namespace babelring::cuda
