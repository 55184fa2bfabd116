#include "nmt/parallel/weights_gather.h"

#include <algorithm>

namespace babelring {

WeightsGather::WeightsGather(const HostShares& shares, const ParameterStore& store) : shares_(shares), store_(store) {
  const std::int64_t size = store.flat_size();
  for (std::int64_t begin = 0; begin < size; begin += shares.round()) {
    buckets_.push_back({.parts = shares.parts_of({{begin, std::min(size, begin + shares.round())}})});
  }
  if (store.compute_copies()) read_as_f32_ = shares.parts_of(store.ranges_read_as_f32(true));
  arrived_ = buckets_.size();
}

void WeightsGather::start() {
  HostExchange& exchange = shares_.exchange();
  const Tensor copies = store_.compute_copies();
  if (copies) exchange.all_gather_start(store_.masters(), read_as_f32_);
  for (Bucket& bucket : buckets_) {
    bucket.all_gather = exchange.all_gather_start(copies ? copies : store_.masters(), bucket.parts);
  }
  arrived_ = 0;
}

void WeightsGather::wait_for(const Parameter& parameter) {
  wait_for_bucket(last_bucket(parameter));
}

void WeightsGather::finish() {
  if (!buckets_.empty()) wait_for_bucket(buckets_.size() - 1);
}

std::size_t WeightsGather::last_bucket(const Parameter& parameter) const {
  return static_cast<std::size_t>((parameter.offset + store_.padded_size(parameter) - 1) / shares_.round());
}

void WeightsGather::wait_for_bucket(std::size_t bucket) {
  if (bucket < arrived_) return;
  shares_.exchange().finish(buckets_[bucket].all_gather);
  arrived_ = bucket + 1;
}

}  // namespace babelring
