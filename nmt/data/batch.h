#pragma once

#include "nmt/core/packed_batch.h"
#include "nmt/data/batch_plan.h"

namespace babelring {

/// Packs a slice into a micro-batch. Appends </s> to each source and target and prepends <s> to each target_in. Row
/// numbers come from the slice. An empty slice gives a batch without sentences.
PackedBatch make_batch(const Corpus& corpus, const UpdatePlan& update, const BatchSlice& slice);

/// Packs sentences [first, last) in corpus order, for validation. Each batch holds at most `tokens` source and `tokens`
/// target tokens (</s> included), or a single longer sentence.
std::vector<PackedBatch> sequential_batches(const Corpus& corpus, std::int64_t first, std::int64_t last,
                                            std::int64_t tokens);

}  // namespace babelring
