#pragma once

#include <utility>
#include <vector>

#include "nmt/core/random.h"

namespace babelring {

/// Puts the elements into a random order, each with equal probability. Source: Fisher and Yates 1938, Durstenfeld 1964.
template <class Element>
void shuffle(std::vector<Element>& elements, Random& random) {
  for (std::size_t i = elements.size(); i > 1; --i) std::swap(elements[i - 1], elements[random.below(i)]);
}

}  // namespace babelring
