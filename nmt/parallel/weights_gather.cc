#include "nmt/parallel/weights_gather.h"

#include <algorithm>
#include <string>

namespace babelring {

HostShards::HostShards(Communicator& communicator, std::int64_t bucket_bytes) : communicator_(&communicator) {
  const std::int64_t of_rank = bucket_bytes / std::int64_t{sizeof(float)} / communicator.size();
  stripe_ = std::max<std::int64_t>(1, of_rank / Shards::grain) * Shards::grain;
  const int own = exchange().stripe_of(exchange().position());
  for (const std::string& stripe : communicator.all_gather(std::to_string(own))) stripes_.push_back(std::stoi(stripe));
}

Shards HostShards::at(int position) const {
  return Shards::in_stripes(stripe_, exchange().stripe_of(position), communicator_->size());
}

Shards HostShards::of_rank(int rank) const {
  return Shards::in_stripes(stripe_, stripes_[static_cast<std::size_t>(rank)], communicator_->size());
}

PartsByPosition HostShards::parts_of(const std::vector<ElementRange>& ranges) const {
  PartsByPosition parts;
  for (int position = 0; position < hosts(); ++position) {
    std::vector<ElementRange>& of_place = parts.emplace_back();
    for (const ElementRange& range : ranges) {
      const std::vector<ElementRange> found = at(position).within(range);
      of_place.insert(of_place.end(), found.begin(), found.end());
    }
  }
  return parts;
}

void HostShards::gather(Tensor tensor, const PartsByPosition& parts) const {
  exchange().finish(exchange().all_gather_start(tensor, parts));
}

WeightsGather::WeightsGather(const HostShards& shards, const ParameterStore& store) : shards_(shards), store_(store) {
  const std::int64_t size = store.flat_size();
  for (std::int64_t begin = 0; begin < size; begin += shards.round()) {
    buckets_.push_back({.parts = shards.parts_of({{begin, std::min(size, begin + shards.round())}})});
  }
  if (store.compute_copies()) read_as_f32_ = shards.parts_of(store.ranges_read_as_f32(true));
  arrived_ = buckets_.size();
}

void WeightsGather::start() {
  HostExchange& exchange = shards_.exchange();
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
  return static_cast<std::size_t>((parameter.offset + store_.padded_size(parameter) - 1) / shards_.round());
}

void WeightsGather::wait_for_bucket(std::size_t bucket) {
  if (bucket < arrived_) return;
  shards_.exchange().finish(buckets_[bucket].all_gather);
  arrived_ = bucket + 1;
}

}  // namespace babelring
