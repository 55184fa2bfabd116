#pragma once

#include <vector>

#include "nmt/core/parameters.h"
#include "nmt/core/shares.h"
#include "nmt/ops/backend.h"

namespace babelring {

/// Sums of squares of a store's gradients, one for each SquaredNorm::block of the flat array: what Adam takes the norm
/// from. By blocks, because ranks that sum a share each, added up, then have the very numbers of one that sums all.
class GradientNorm {
 public:
  /// The store must outlive the object.
  GradientNorm(const ParameterStore& store, Backend& backend);

  /// Of the gradients as they are.
  std::vector<double> squares(Backend& backend) const;
  /// Sums the ranks' gradients in rank order, `shares` of them, into the store's, and gives the squares of the sums: 0
  /// for the blocks of others. `on_ranks`: the flat gradients of each rank, one of them the store's.
  std::vector<double> squares_of_sum(Backend& backend, const std::vector<ConstTensor>& on_ranks,
                                     const Shares& shares) const;

 private:
  Tensor squares_tensor() const;
  std::vector<double> download(Backend& backend) const;

  const ParameterStore* store_;
  Buffer squares_;
};

}  // namespace babelring
