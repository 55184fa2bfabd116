#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nmt/data/vocabulary.h"

namespace babelring {

/// Encodes each line to subword ids with `threads` threads (0: one per available CPU). The result does not depend on
/// the number of threads. Throws Failure.
std::vector<std::vector<std::int32_t>> encode_lines(const std::vector<std::string>& lines, const Vocabulary& vocabulary,
                                                    int threads);

/// Decodes each line's ids to text, likewise.
std::vector<std::string> decode_lines(const std::vector<std::vector<std::int32_t>>& ids, const Vocabulary& vocabulary,
                                      int threads);

}  // namespace babelring
