#pragma once

#include "nmt/ops/backend.h"
#include "nmt/ops/ops.h"

namespace babelring {

/// Overrides do_run() for each op of a list by a call of Derived::launch(op).
template <class Derived, class List>
class ForwardsOps;

template <class Derived>
class ForwardsOps<Derived, OpList<>> : public Backend {};

template <class Derived, class Op, class... Rest>
class ForwardsOps<Derived, OpList<Op, Rest...>> : public ForwardsOps<Derived, OpList<Rest...>> {
 protected:
  using ForwardsOps<Derived, OpList<Rest...>>::do_run;
  void do_run(const Op& op) final { static_cast<Derived&>(*this).launch(op); }
};

/// The base class of a backend that runs every op by one function, usually a template. It derives from
/// EveryOp<itself> and has a public `launch(op)`, which gets an op that has passed check(). An op that launch() does
/// not accept is a compile error.
template <class Derived>
using EveryOp = ForwardsOps<Derived, AllOps>;

}  // namespace babelring
