#include "nmt/parallel/host_shares.h"

#include <algorithm>
#include <string>

namespace babelring {

HostShares::HostShares(Communicator& communicator, std::int64_t bucket_bytes) : communicator_(&communicator) {
  const std::int64_t of_rank = bucket_bytes / std::int64_t{sizeof(float)} / communicator.size();
  stripe_ = std::max<std::int64_t>(1, of_rank / Shards::grain) * Shards::grain;
  const int own = exchange().stripe_of(exchange().place());
  for (const std::string& stripe : communicator.all_gather(std::to_string(own))) stripes_.push_back(std::stoi(stripe));
}

Shards HostShares::at(int place) const {
  return Shards::in_stripes(stripe_, exchange().stripe_of(place), communicator_->size());
}

Shards HostShares::of_rank(int rank) const {
  return Shards::in_stripes(stripe_, stripes_[static_cast<std::size_t>(rank)], communicator_->size());
}

PartsByPlace HostShares::parts_of(const std::vector<ElementRange>& ranges) const {
  PartsByPlace parts;
  for (int place = 0; place < hosts(); ++place) {
    std::vector<ElementRange>& of_place = parts.emplace_back();
    for (const ElementRange& range : ranges) {
      const std::vector<ElementRange> found = at(place).within(range);
      of_place.insert(of_place.end(), found.begin(), found.end());
    }
  }
  return parts;
}

void HostShares::gather(Tensor tensor, const PartsByPlace& parts) const {
  exchange().finish(exchange().all_gather_start(tensor, parts));
}

}  // namespace babelring
