#pragma once

#include <type_traits>
#include <vector>

#include "nmt/comm/communicator.h"
#include "nmt/layers/context.h"
#include "nmt/ops/backend.h"

namespace babelring {

/// The sum of `units`, in pairs: (0 + 1) + (2 + 3), and so on. Their number is a power of two.
template <class Sums>
Sums sum_in_tree(std::vector<Sums> units) {
  for (std::size_t count = units.size(); count > 1; count /= 2) {
    for (std::size_t pair = 0; pair < count / 2; ++pair) {
      Sums sum = units[2 * pair];
      sum += units[2 * pair + 1];
      units[pair] = sum;
    }
  }
  return units.at(0);
}

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

/// Backend, communicator and arenas of one rank. All must outlive the users of this struct.
struct RankContext {
  Backend& backend;
  Communicator& communicator;
  ActivationArenas& arenas;
};

}  // namespace babelring
