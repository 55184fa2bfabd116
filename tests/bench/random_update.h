#pragma once

#include "nmt/data/update_source.h"

namespace babelring {

/// Sentences of one length, of random tokens.
struct RandomUpdateOptions {
  std::int64_t sentences = 64;                          // pairs, over all ranks
  std::int64_t source_length = 32, target_length = 32;  // tokens, </s> included
  std::int64_t vocabulary = 32000;
};

/// Rank `rank`'s share of an update that is the same whatever the number of ranks. Throws Failure if the vocabulary has
/// no piece beside the control ones.
UpdateBatches random_update(const RandomUpdateOptions& options, int rank, int ranks);

}  // namespace babelring
