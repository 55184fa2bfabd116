#pragma once

#include <cstdio>
#include <cstdlib>

/// A condition that must hold for every input; the fuzzer keeps an input for which it does not.
inline void expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::abort();
}
