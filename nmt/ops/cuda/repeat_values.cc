#include "nmt/ops/cuda/repeat_values.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

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

namespace {

constexpr std::size_t value_alignment = 16;
constexpr std::size_t min_values_bytes = std::size_t{1} << 16;

}  // namespace

void RepeatValues::begin() {
  if (block_.bytes() == 0) block_ = allocate_device(min_values_bytes);
  values_.clear();
  lists_.clear();
  active_ = true;
}

const std::byte* RepeatValues::put(const void* value, std::size_t bytes) {
  const std::size_t place = values_.size();
  values_.resize((place + bytes + value_alignment - 1) / value_alignment * value_alignment);
  std::memcpy(values_.data() + place, value, bytes);
  return static_cast<const std::byte*>(block_.data()) + place;
}

const std::int32_t* RepeatValues::list(std::span<const std::int32_t> list) {
  for (const List& known : lists_) {
    if (known.elements != list.size() ||
        std::memcmp(values_.data() + known.place, list.data(), list.size_bytes()) != 0) {
      continue;
    }
    return reinterpret_cast<const std::int32_t*>(static_cast<const std::byte*>(block_.data()) + known.place);
  }
  lists_.push_back({.place = values_.size(), .elements = list.size()});
  return reinterpret_cast<const std::int32_t*>(put(list.data(), list.size_bytes()));
}

DropoutKey RepeatValues::key(DropoutKey key) {
  const DropoutStep place{.key = std::exchange(key.key, 0), .first_row = std::exchange(key.first_row, 0)};
  if (key.threshold() > 0) key.place = reinterpret_cast<const DropoutStep*>(put(&place, sizeof place));
  return key;
}

const float* RepeatValues::number(float number) {
  return reinterpret_cast<const float*>(put(&number, sizeof number));
}

bool RepeatValues::fit() {
  if (values_.size() <= block_.bytes()) return true;
  block_ = allocate_device(std::bit_ceil(values_.size()));
  ++moves_;
  return false;
}

void RepeatValues::upload(cudaStream_t stream) {
  if (values_.empty() || staging_.upload(block_.data(), values_.data(), values_.size())) return;
  // From memory that is not pinned: the driver has taken its copy when the call returns.
  require(cudaMemcpyAsync(block_.data(), values_.data(), values_.size(), cudaMemcpyHostToDevice, stream),
          "copying values to the device");
}

const std::int32_t* DeviceLists::on_device(std::span<const std::int32_t> list) {
  if (values_.active()) return values_.list(list);
  ++uses_;
  for (Kept& kept : kept_) {
    if (kept.last_use < 0 || !std::equal(list.begin(), list.end(), kept.list.begin(), kept.list.end())) continue;
    kept.last_use = uses_;
    return static_cast<const std::int32_t*>(kept.copy.data());
  }
  Kept& oldest = *std::min_element(kept_.begin(), kept_.end(),
                                   [](const Kept& a, const Kept& b) { return a.last_use < b.last_use; });
  oldest.last_use = -1;  // should something throw
  if (oldest.copy.bytes() < list.size_bytes()) oldest.copy = allocate_device(std::bit_ceil(list.size_bytes()));
  oldest.list.assign(list.begin(), list.end());
  if (!staging_.upload(oldest.copy.data(), oldest.list.data(), list.size_bytes())) {
    // From memory that is not pinned: the driver has taken its copy when the call returns.
    require(cudaMemcpyAsync(oldest.copy.data(), oldest.list.data(), list.size_bytes(), cudaMemcpyHostToDevice, stream_),
            "copying a list to the device");
  }
  oldest.last_use = uses_;
  return static_cast<const std::int32_t*>(oldest.copy.data());
}

}  // namespace babelring::cuda
