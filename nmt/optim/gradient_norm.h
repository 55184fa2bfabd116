#pragma once

#include <vector>

#include "nmt/core/parameters.h"
#include "nmt/core/shards.h"
#include "nmt/ops/backend.h"

namespace babelring {

/// Computes the sums of squares from which Adam takes the gradient norm: one sum for each block of SquaredNorm::block
/// elements of a store's flat gradient. Because blocks are summed independently, ranks that each own a shard get the
/// same bits as one rank that owns everything.
class GradientNorm {
 public:
  /// Allocates the sums in the backend's memory. The store must outlive the object.
  GradientNorm(const ParameterStore& store, Backend& backend);

  /// The sums of squares of the store's gradients, [SquaredNorm::blocks(flat_size)] f32 in the backend's memory. Valid
  /// until the next call.
  ConstTensor squares(Backend& backend) const;
  /// Adds up the gradients of all ranks, in rank order, for the elements of `shard`, and writes the sums into the
  /// store's gradients. Returns the sums of squares of the result, 0 for blocks outside the shard. `on_ranks` holds
  /// each rank's flat gradients, [flat_size] f32; one of them is the store's.
  std::vector<double> squares_of_sum(Backend& backend, const std::vector<ConstTensor>& on_ranks,
                                     const Shards& shard) const;

 private:
  Tensor squares_tensor() const;

  const ParameterStore* store_;
  Buffer squares_;
};

}  // namespace babelring
