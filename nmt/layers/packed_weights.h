#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <utility>

#include "nmt/ops/backend.h"

namespace babelring {

/// Weights, or whole rows of them, in the order in which a backend's products read them (Backend::pack), each packed
/// when it is first asked for: for a model whose weights stay where and as they are while this lives. Takes as much
/// memory again as the weights it was asked for. Not thread-safe.
class PackedWeights {
 public:
  /// `backend` must outlive this.
  explicit PackedWeights(Backend& backend) : backend_(backend) {}

  /// Null where the backend packs nothing.
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
  std::map<std::pair<const void*, std::int64_t>, std::unique_ptr<const PackedWeight>> packed_;  // by address and rows
};

}  // namespace babelring
