#include "nmt/ops/cuda/graph.h"

namespace babelring::cuda {

Capture::Capture(cudaStream_t stream) : stream_(stream) {
  // Relaxed: what ops ask of the driver meanwhile, as a kernel's limits, is no part of the recording.
  require(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed), "recording a graph");
  open_ = true;
}

Capture::~Capture() {
  if (!open_) return;
  cudaGraph_t graph = nullptr;
  if (cudaStreamEndCapture(stream_, &graph) != cudaSuccess) static_cast<void>(cudaGetLastError());
  const Graph dropped(graph);
}

GraphExec Capture::finish() {
  open_ = false;
  cudaGraph_t recorded = nullptr;
  require(cudaStreamEndCapture(stream_, &recorded), "recording a graph");
  const Graph graph(recorded);
  cudaGraphExec_t executable = nullptr;
  require(cudaGraphInstantiate(&executable, graph.get(), 0), "making a graph");
  return GraphExec(executable);
}

}  // namespace babelring::cuda
