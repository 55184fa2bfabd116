#pragma once

#include "nmt/core/packed_batch.h"
#include "nmt/data/plan.h"

namespace babelring {

/// The packed micro-batch of a slice: </s> after each source and target, <s> before each target_in, row numbers of
/// the slice. An empty slice gives a batch of no sentences.
PackedBatch make_batch(const Corpus& corpus, const UpdatePlan& update, const Slice& slice);

/// Batches over sentences [first, last) of a corpus in corpus order, for validation: each of at most `tokens` source
/// and `tokens` target tokens (</s> included) or one sentence.
std::vector<PackedBatch> sequential_batches(const Corpus& corpus, std::int64_t first, std::int64_t last,
                                            std::int64_t tokens);

}  // namespace babelring
