#include "nmt/ops/cuda/pinned_staging.h"

#include <cstring>

namespace babelring::cuda {

PinnedStaging::PinnedStaging(const Stream& stream)
    : stream_(stream.get()), fetched_into_(allocate_pinned, std::size_t{4} << 20) {}

/// Goes on to the next block, when what was copied from it before has arrived.
void PinnedStaging::turn_over() {
  Block& full = ring_[block_];
  require(cudaEventRecord(full.copied.get(), stream_), "marking copies");
  full.in_use = true;
  block_ = (block_ + 1) % blocks;
  offset_ = 0;
  Block& next = ring_[block_];
  if (next.in_use) require(cudaEventSynchronize(next.copied.get()), "waiting for copies");
  next.in_use = false;
}

bool PinnedStaging::upload(void* device, const void* host, std::size_t bytes) {
  constexpr std::size_t alignment = 256;
  if (bytes > block_bytes) return false;
  if (offset_ + bytes > block_bytes) turn_over();
  Block& block = ring_[block_];
  if (block.memory.data() == nullptr) {
    block.memory = allocate_pinned(block_bytes);
    block.copied = make_event();
  }
  char* pinned = static_cast<char*>(block.memory.data()) + offset_;
  std::memcpy(pinned, host, bytes);
  require(cudaMemcpyAsync(device, pinned, bytes, cudaMemcpyHostToDevice, stream_), "upload");
  offset_ += (bytes + alignment - 1) / alignment * alignment;
  return true;
}

std::shared_ptr<const std::vector<float>> PinnedStaging::fetch(const void* device, std::size_t count) {
  auto numbers = std::make_shared<std::vector<float>>(count);
  const Tensor pinned = fetched_into_.make(Shape{static_cast<std::int64_t>(count)}, DType::f32);
  require(cudaMemcpyAsync(pinned.data, device, pinned.bytes(), cudaMemcpyDeviceToHost, stream_), "fetch");
  fetches_.push_back({.pinned = pinned.data, .numbers = numbers});
  return numbers;
}

void PinnedStaging::deliver() {
  for (const Fetch& fetch : fetches_) {
    std::memcpy(fetch.numbers->data(), fetch.pinned, fetch.numbers->size() * sizeof(float));
  }
  fetches_.clear();
  fetched_into_.reset();
}

}  // namespace babelring::cuda
