#include "nmt/ops/cuda/repeat_values.h"

#include <bit>
#include <cstring>
#include <utility>

namespace babelring::cuda {

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
  const DropoutPlace place{.key = std::exchange(key.key, 0), .first_row = std::exchange(key.first_row, 0)};
  if (key.threshold() > 0) key.place = reinterpret_cast<const DropoutPlace*>(put(&place, sizeof place));
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

}  // namespace babelring::cuda
