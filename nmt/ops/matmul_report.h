#pragma once

#include <string>

namespace babelring {

/// The algorithm choice for matmuls of one shape: the library's algorithm and its time.
struct MatmulReport {
  std::string matmul;     // "x W^T 25600x512x2048 bf16"; rows are rounded up to the size that shares the choice
  std::string epilogue;   // requested from the library; empty if none
  bool found = false;     // false if the library has no suitable algorithm and our own kernels are used
  int candidates = 0;     // number of algorithms proposed by the library
  double first_ms = 0;    // time of the library's first proposal, with cold caches; 0 if not timed
  double chosen_ms = 0;   // time of the chosen algorithm; 0 if not timed
  double waves = 0;       // number of times its blocks fill the device
  std::string algorithm;  // its settings as the library's numbers; empty if none
};

}  // namespace babelring
