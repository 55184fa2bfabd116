#pragma once

#include <string>

namespace babelring {

/// How a device computes matrix products of one kind: with which of its library's algorithms, and how long they took.
struct ProductReport {
  std::string product;    // x W^T 25600x512x2048 bf16: rows are rounded up to those that share the choice
  std::string epilogue;   // wanted of the library; empty: none
  bool found = false;     // false: the library has no algorithm, or one that is not worth it; our kernels do the rest
  int candidates = 0;     // algorithms proposed by the library
  double first_ms = 0;    // of the library's first proposal, with operands out of cache; 0: not timed
  double chosen_ms = 0;   // of the algorithm chosen; 0: not timed
  double waves = 0;       // how often its blocks fill the device
  std::string algorithm;  // its settings in the library's numbers; empty: none
};

}  // namespace babelring
