#pragma once

#include <cstdint>

#include "nmt/data/corpus.h"

namespace babelring {

enum class SyntheticTask { copy, reverse };

struct SyntheticOptions {
  SyntheticTask task = SyntheticTask::copy;
  std::int64_t sentences = 1000;
  int vocabulary_size = 32;  // ids 3 .. size - 1 occur, uniformly
  int min_length = 1;        // pieces, without </s>
  int max_length = 10;
  std::uint64_t seed = 1;
};

/// Random sequences and their copies or reversals, in memory: a task a small model learns in seconds. Pure.
/// Throws Failure on options out of range.
Corpus make_synthetic(const SyntheticOptions& options);

}  // namespace babelring
