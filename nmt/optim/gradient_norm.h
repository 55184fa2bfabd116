#pragma once

#include <vector>

#include "nmt/core/parameters.h"
#include "nmt/core/shards.h"
#include "nmt/ops/backend.h"

namespace babelring {

/// Sums of squares of a store's gradients, one for each SquaredNorm::block of the flat array; Adam takes the norm from
/// them. Kept by block, so that ranks with a share each get, bit for bit, the blocks of one rank that has everything.
class GradientNorm {
 public:
  /// The store must outlive the object.
  GradientNorm(const ParameterStore& store, Backend& backend);

  /// Of the store's gradients, in the backend's memory: [SquaredNorm::blocks(flat_size)] f32, valid until the next
  /// call.
  ConstTensor squares(Backend& backend) const;
  /// Sums the gradients of all ranks, in rank order, into the store's, for the elements in `shares` only. Returns the
  /// squares of these sums, with 0 for the blocks outside `shares`. `on_ranks` holds each rank's flat gradients; one of
  /// them is the store's own.
  std::vector<double> squares_of_sum(Backend& backend, const std::vector<ConstTensor>& on_ranks,
                                     const Shards& shares) const;

 private:
  Tensor squares_tensor() const;

  const ParameterStore* store_;
  Buffer squares_;
};

}  // namespace babelring
