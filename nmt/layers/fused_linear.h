#pragma once

#include <vector>

#include "nmt/layers/linear.h"

namespace babelring {

/// Several projections of the same input as one matmul: y = x [W_1; W_2; …]^T + [b_1, b_2, …]. Backward computes
/// dx = dy [W_1; W_2; …] and sums over all parts in f32. Every pass copies the weights into one matrix. Used if
/// Backend::prefers_fused_matmuls() is true.
class FusedLinear {
 public:
  struct Saved {
    Tensor weight;  // [parts * out, in]
    Tensor y;       // [rows, parts * out]
  };
  /// All parts have the same shape, and all or none have a bias. They must outlive this object.
  explicit FusedLinear(std::vector<const Linear*> parts);

  /// x [rows, in] → [rows, parts * out] in context.saved. Columns [i * out, (i + 1) * out) belong to part i.
  Tensor forward(Context& context, ConstTensor x, Saved& saved) const;
  /// Overwrites dx [rows, in]. The caller computes weight and bias gradients with Linear::backward_parameters() of each
  /// part.
  void backward_data(Context& context, ConstTensor dy, const Saved& saved, Tensor dx) const;

  /// Output features of each part.
  std::int64_t out() const { return parts_.front()->out(); }

 private:
  std::vector<const Linear*> parts_;
};

}  // namespace babelring
