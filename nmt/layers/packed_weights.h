#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <utility>

#include "nmt/ops/backend.h"

namespace babelring {

/// A cache of weights, or row ranges of weights, in the layout that a backend's matmuls read (Backend::pack). Packs on
/// first use. For inference: the weights must not move or change during the cache's lifetime. Needs as much memory as
/// the weights it packs. Not thread-safe.
class PackedWeights {
 public:
  /// `backend` must outlive the cache.
  explicit PackedWeights(Backend& backend) : backend_(backend) {}

  /// The packed form of `weight`, owned by the cache. Null if the backend does not pack.
  const PackedWeight* of(ConstTensor weight) {
    const auto [place, added] = packed_.try_emplace({weight.data, weight.rows()});
    if (added) place->second = backend_.pack(weight);
    return place->second.get();
  }

  std::size_t bytes() const {
    std::size_t total = 0;
    for (const auto& [weight, packed] : packed_) total += packed == nullptr ? 0 : packed->elements.bytes();
    return total;
  }

 private:
  Backend& backend_;
  std::map<std::pair<const void*, std::int64_t>, std::unique_ptr<const PackedWeight>> packed_;  // key: address, rows
};

}  // namespace babelring
