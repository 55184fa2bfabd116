#pragma once

namespace babelring {

/// Every op: expands DO(Op) for each. This is the only list of ops. AllOps and the declarations of the kernels
/// (cpu/kernels/kernels.cc, cuda/kernels.h) follow from it.
// clang-format off
#define BABELRING_FOR_EACH_OP(DO) \
  DO(LinearForward)               \
  DO(LinearBackwardData)          \
  DO(LinearBackwardWeight)        \
  DO(QuantizedLinear)             \
  DO(LayerNormForward)            \
  DO(ResidualNormForward)         \
  DO(LayerNormBackward)           \
  DO(Dropout)                     \
  DO(ResidualDropout)             \
  DO(ActivationForward)           \
  DO(ActivationBackward)          \
  DO(EmbeddingForward)            \
  DO(EmbeddingBackward)           \
  DO(RotaryPositions)             \
  DO(AttentionForward)            \
  DO(AttentionBackward)           \
  DO(DecodeAttention)             \
  DO(GuidedAttention)             \
  DO(CrossEntropy)                \
  DO(SymmetricDivergence)         \
  DO(LogSoftmaxTopK)              \
  DO(AdamUpdate)                  \
  DO(SquaredNorm)                 \
  DO(SumWithNorm)                 \
  DO(Cast)                        \
  DO(Fill)                        \
  DO(Add)
// clang-format on

// Their definitions are in nmt/ops/ops.h.
#define BABELRING_DECLARE_OP(Op) struct Op;
BABELRING_FOR_EACH_OP(BABELRING_DECLARE_OP)
#undef BABELRING_DECLARE_OP

template <class... Ops>
struct OpList {};

/// OpList of all its arguments but the first.
template <class, class... Ops>
using OpListAfter = OpList<Ops...>;

/// Every op, as a type. A backend has a virtual function for each op of this list (see OpInterface and EveryOp).
#define BABELRING_COMMA_OP(Op) , Op
using AllOps = OpListAfter<void BABELRING_FOR_EACH_OP(BABELRING_COMMA_OP)>;
#undef BABELRING_COMMA_OP

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
