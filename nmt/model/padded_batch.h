#pragma once

#include "nmt/core/packed_batch.h"

namespace babelring {

/// `count` rounded up to one of 32 to 64 sizes between two powers of two, or of 8 to 16 for sentences.
std::int64_t padded_rows(std::int64_t count);
std::int64_t padded_sentences(std::int64_t count);

/// The batch with tokens and sentences added at its end, so that batches of similar size get the same sizes: for passes
/// that a device records and repeats. Added tokens lie in sentences of at most 32 tokens and are id 0; added
/// target outputs are CrossEntropy::no_target, so that losses and gradients are those of the batch. A batch without
/// target tokens stays as it is.
PackedBatch padded_batch(const PackedBatch& batch);

}  // namespace babelring
