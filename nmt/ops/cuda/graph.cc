#include "nmt/ops/cuda/graph.h"

namespace babelring::cuda {

Capture::Capture(cudaStream_t stream, DeviceLists& lists) : stream_(stream), lists_(lists) {
  // Relaxed: lists are copied meanwhile, beside the stream.
  require(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed), "recording a graph");
  open_ = true;
  lists_.pin_into(&pinned_);
}

Capture::~Capture() {
  if (!open_) return;
  lists_.pin_into(nullptr);
  cudaGraph_t graph = nullptr;
  if (cudaStreamEndCapture(stream_, &graph) != cudaSuccess) static_cast<void>(cudaGetLastError());
  const Graph dropped(graph);
}

RecordedWork Capture::finish() {
  open_ = false;
  lists_.pin_into(nullptr);
  cudaGraph_t recorded = nullptr;
  require(cudaStreamEndCapture(stream_, &recorded), "recording a graph");
  const Graph graph(recorded);
  cudaGraphExec_t executable = nullptr;
  require(cudaGraphInstantiate(&executable, graph.get(), 0), "making a graph");
  return {.graph = GraphExec(executable), .lists = std::move(pinned_), .result = {}, .flops = 0};
}

}  // namespace babelring::cuda
