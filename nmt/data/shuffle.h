#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <utility>

#include "nmt/core/random.h"

namespace babelring {

/// Puts the elements into a random order, each with equal probability. Source: Fisher and Yates 1938, Durstenfeld 1964.
/// Positions are drawn ahead of their use, so that an array larger than the caches need not be waited for.
template <class Element>
void shuffle(std::span<Element> elements, Random& random) {
  constexpr std::size_t ahead = 32;
  std::array<std::size_t, ahead> drawn;  // by the number of elements that are left, modulo `ahead`
  const auto draw = [&](std::size_t left) {
    const std::size_t position = random.below(left);
    __builtin_prefetch(&elements[position], 1);
    drawn[left % ahead] = position;
  };
  const std::size_t count = elements.size();
  for (std::size_t left = count; left > 1 && left + ahead > count; --left) draw(left);
  for (std::size_t left = count; left > 1; --left) {
    std::swap(elements[left - 1], elements[drawn[left % ahead]]);
    if (left > ahead + 1) draw(left - ahead);
  }
}

}  // namespace babelring
