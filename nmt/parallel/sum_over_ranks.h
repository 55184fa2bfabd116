#pragma once

#include <type_traits>
#include <vector>

#include "nmt/comm/communicator.h"

namespace babelring {

/// Replaces numbers by their sums over all ranks, in one collective. `each(visit)` must call visit(number) for every
/// number, in the same order each time and on all ranks. Integers must stay below 2^53.
template <class Each>
void sum_over_ranks(Communicator& communicator, const Each& each) {
  std::vector<double> shared;
  each([&shared](auto& number) { shared.push_back(static_cast<double>(number)); });
  communicator.sum(shared);
  auto next = shared.begin();
  each([&next](auto& number) { number = static_cast<std::decay_t<decltype(number)>>(*next++); });
}

}  // namespace babelring
