#include "nmt/ops/cuda/workspace.h"

#include <cstdlib>

#include "base/failure.h"
#include "nmt/ops/cuda/cudnn_attention.h"

namespace babelring::cuda {

namespace {

/// Op and field of a BadIndex.
std::string_view name_of_list(BadIndex place) {
  switch (place) {
    case BadIndex::forward_ids:
      return "embedding_forward: ids";
    case BadIndex::forward_positions:
      return "embedding_forward: positions";
    case BadIndex::backward_ids:
      return "embedding_backward: ids";
    case BadIndex::targets:
      return "cross_entropy: targets";
    case BadIndex::none:
      break;
  }
  return "?";
}

}  // namespace

Workspace::Workspace()
    : stream_(make_stream()),
      staging_(stream_),
      values_(staging_),
      products_(stream()),
      lists_(stream_, staging_, values_),
      cudnn_(current_cudnn_device()),
      scratch_([this](std::size_t bytes) {
        ++scratch_blocks_;
        return allocate_device(bytes);
      }),
      index_error_(allocate_device(sizeof(IndexError))),
      attention_route_(cuda::attention_route(std::getenv("BABELRING_CUDA_ATTENTION"))) {
  require(cudaMemsetAsync(index_error_.data(), 0, sizeof(IndexError), stream_.get()), "a workspace");
}

void Workspace::synchronize() {
  IndexError error;
  require(cudaMemcpyAsync(&error, index_error_.data(), sizeof error, cudaMemcpyDeviceToHost, stream_.get()),
          "synchronize");
  require(cudaStreamSynchronize(stream_.get()), "synchronize");
  staging_.deliver();
  if (scratch_blocks_ > 1) {
    scratch_blocks_ = 0;
    ++scratch_moves_;
    scratch_.reset_to_one_block();
  }
  const auto place = static_cast<BadIndex>(error.place);
  if (place == BadIndex::none) return;
  require(cudaMemsetAsync(index_error_.data(), 0, sizeof error, stream_.get()), "synchronize");
  const std::string_view list = name_of_list(place);
  if (place == BadIndex::forward_positions) {
    fail("{}[{}] is {}, at least 0 is needed", list, error.row, error.value);
  }
  fail("{}[{}] is {}, 0 to {} is needed", list, error.row, error.value, error.bound - 1);
}

}  // namespace babelring::cuda
