#pragma once

#include <vector>

#include "nmt/layers/linear.h"

namespace babelring {

/// Several projections of one input as one product: y = x [W_1; W_2; …]^T + [b_1, b_2, …], and dx = dy [W_1; W_2; …]
/// backward, summed in f32 over all of them. Copies the weights below one another in each pass. For backends whose
/// Backend::joins_products() is true.
class JoinedLinear {
 public:
  struct Saved {
    Tensor weight;  // [parts * out, in]
    Tensor y;       // [rows, parts * out]
  };
  /// Of one shape, with bias or all without. They outlive this object.
  explicit JoinedLinear(std::vector<const Linear*> parts);

  /// x [rows, in] → [rows, parts * out] in context.saved; part i has columns [i * out, (i + 1) * out).
  Tensor forward(Context& context, ConstTensor x, Saved& saved) const;
  /// Overwrites dx [rows, in]. Gradients of weights and biases are left to Linear::backward_parameters() of the parts.
  void backward_data(Context& context, ConstTensor dy, const Saved& saved, Tensor dx) const;

  /// Output features of a part.
  std::int64_t out() const { return parts_.front()->out(); }

 private:
  std::vector<const Linear*> parts_;
};

}  // namespace babelring
