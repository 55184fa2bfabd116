#include "nmt/ops/cuda/cuda_context.h"

#include <cstdlib>

#include "base/failure.h"

namespace babelring::cuda {

namespace {

/// Op and field of a BadIndex.
std::string_view name_of_list(BadIndex place) {
  switch (place) {
    case BadIndex::forward_ids:
      return "embedding_forward: ids";
    case BadIndex::forward_positions:
      return "embedding_forward: positions";
    case BadIndex::rotary_positions:
      return "rotary_positions: positions";
    case BadIndex::backward_ids:
      return "embedding_backward: ids";
    case BadIndex::targets:
      return "cross_entropy: targets";
    case BadIndex::none:
      break;
  }
  return "?";
}

/// Whether the current device can place blocks of a kernel before the one before has ended.
bool overlaps_kernels() {
  int device = 0, major = 0;
  require(cudaGetDevice(&device), "a context");
  require(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "a context");
  return major >= 9;
}

}  // namespace

CudaContext::CudaContext()
    : stream_(make_stream()),
      overlaps_(overlaps_kernels()),
      staging_(stream_),
      values_(staging_),
      matmul_(stream()),
      lists_(stream_, staging_, values_),
      scratch_([this](std::size_t bytes) {
        ++scratch_blocks_;
        return allocate_device(bytes);
      }),
      index_error_(allocate_device(sizeof(IndexError))),
      fetched_error_(allocate_pinned(sizeof(IndexError))),
      fetched_(make_event()),
      attention_route_(cuda::attention_route(std::getenv("BABELRING_CUDA_ATTENTION"))) {
  require(cudaMemsetAsync(index_error_.data(), 0, sizeof(IndexError), stream_.get()), "a context");
  *static_cast<IndexError*>(fetched_error_.data()) = {};
}

std::shared_ptr<const std::vector<float>> CudaContext::fetch(const void* device, std::size_t count) {
  auto numbers = staging_.fetch(device, count);
  require(cudaMemcpyAsync(fetched_error_.data(), index_error_.data(), sizeof(IndexError), cudaMemcpyDeviceToHost,
                          stream_.get()),
          "fetch");
  require(cudaEventRecord(fetched_.get(), stream_.get()), "fetch");
  return numbers;
}

void CudaContext::await_fetched() {
  if (scratch_blocks_ > 1) return synchronize();
  require(cudaEventSynchronize(fetched_.get()), "waiting for what was fetched");
  staging_.deliver();
  report(*static_cast<IndexError*>(fetched_error_.data()));
}

void CudaContext::synchronize() {
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
  report(error);
}

/// Throws Failure if it is one, and forgets it.
void CudaContext::report(IndexError error) {
  const auto place = static_cast<BadIndex>(error.place);
  if (place == BadIndex::none) return;
  require(cudaMemsetAsync(index_error_.data(), 0, sizeof error, stream_.get()), "clearing a report");
  *static_cast<IndexError*>(fetched_error_.data()) = {};
  const std::string_view list = name_of_list(place);
  if (place == BadIndex::forward_positions || place == BadIndex::rotary_positions) {
    fail("{}[{}] is {}, at least 0 is needed", list, error.row, error.value);
  }
  fail("{}[{}] is {}, 0 to {} is needed", list, error.row, error.value, error.bound - 1);
}

}  // namespace babelring::cuda
