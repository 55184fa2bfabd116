#pragma once

#include "nmt/ops/adam.h"
#include "nmt/ops/attention.h"
#include "nmt/ops/cross_entropy.h"
#include "nmt/ops/dropout.h"
#include "nmt/ops/elementwise.h"
#include "nmt/ops/embedding.h"
#include "nmt/ops/layer_norm.h"
#include "nmt/ops/linear.h"

namespace babelring {

template <class... Ops>
struct OpList {};

/// Every op. A backend has a virtual function for each op of this list (see OpInterface and EveryOp).
using AllOps = OpList<LinearForward, LinearBackwardData, LinearBackwardWeight, LayerNormForward, ResidualNormForward,
                      LayerNormBackward, Dropout, ResidualDropout, EmbeddingForward, EmbeddingBackward,
                      AttentionForward, AttentionBackward, DecodeAttention, CrossEntropy, LogSoftmaxTopK, AdamUpdate,
                      SquaredNorm, SumWithNorm, Cast, Fill, Add>;

/// Declares `virtual void do_run(const Op&) = 0` for each op of a list.
template <class List>
class OpInterface;

template <class Op>
class OpInterface<OpList<Op>> {
 public:
  virtual ~OpInterface() = default;

 protected:
  virtual void do_run(const Op& op) = 0;
};

template <class Op, class... Rest>
class OpInterface<OpList<Op, Rest...>> : public OpInterface<OpList<Rest...>> {
 protected:
  using OpInterface<OpList<Rest...>>::do_run;
  virtual void do_run(const Op& op) = 0;
};

}  // namespace babelring
