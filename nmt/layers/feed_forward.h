#pragma once

#include <string>

#include "nmt/layers/linear.h"

namespace babelring {

/// y = W2 dropout(relu(W1 x + b1)) + b2.  Source: Vaswani et al. 2017, eq. 2.
class FeedForward {
 public:
  struct Saved {
    ConstTensor x;
    Tensor hidden;  // after ReLU and dropout
    DropoutKey dropout;
  };
  FeedForward(ParameterStore& store, const std::string& name, std::int64_t width, std::int64_t inner, float dropout,
              std::uint64_t site);

  /// x [tokens, width] → [tokens, width] in context.scratch.
  Tensor forward(Context& context, ConstTensor x, std::int64_t first_row, Saved& saved) const;
  /// Writes dx, or adds to it with `accumulate`. dx may alias d.dy, which is read before dx is written.
  void backward(Context& context, const OutputGradient& d, const Saved& saved, Tensor dx,
                bool accumulate = false) const;

  /// The layer that computes y.
  const Linear& output() const { return second_; }

 private:
  Linear first_, second_;
  float dropout_;
  std::uint64_t site_;
};

}  // namespace babelring
