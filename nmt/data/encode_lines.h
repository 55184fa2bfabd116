#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nmt/data/vocabulary.h"

namespace babelring {

/// The pieces of each line, encoded by `threads` threads (0: as many as the machine has); the result does not depend on
/// how many. Throws Failure.
std::vector<std::vector<std::int32_t>> encode_lines(const std::vector<std::string>& lines, const Vocabulary& vocabulary,
                                                    int threads);

}  // namespace babelring
