#include "nmt/data/batch.h"

#include <algorithm>

#include "nmt/data/special_ids.h"

namespace babelring {

namespace {

void append(PackedSequences& sequences, std::span<const std::int32_t> ids) {
  sequences.ids.insert(sequences.ids.end(), ids.begin(), ids.end());
}

void end_sentence(PackedSequences& sequences) {
  sequences.offsets.push_back(static_cast<std::int32_t>(sequences.ids.size()));
}

void add_pair(PackedBatch& batch, std::span<const std::int32_t> source, std::span<const std::int32_t> target) {
  append(batch.source, source);
  batch.source.ids.push_back(eos_id);
  end_sentence(batch.source);
  batch.target_in.ids.push_back(bos_id);
  append(batch.target_in, target);
  end_sentence(batch.target_in);
  batch.target_out.insert(batch.target_out.end(), target.begin(), target.end());
  batch.target_out.push_back(eos_id);
}

}  // namespace

PackedBatch make_batch(const Corpus& corpus, const UpdatePlan& update, const BatchSlice& slice) {
  PackedBatch batch;
  batch.first_source_row = slice.first_source_row;
  batch.first_target_row = slice.first_target_row;
  batch.source.ids.reserve(static_cast<std::size_t>(slice.source_tokens));
  batch.target_in.ids.reserve(static_cast<std::size_t>(slice.target_tokens));
  batch.target_out.reserve(static_cast<std::size_t>(slice.target_tokens));
  for (std::int64_t i = slice.first; i < slice.last; ++i) {
    const std::int64_t sentence = update.sentences[static_cast<std::size_t>(i)];
    add_pair(batch, corpus.source(sentence), corpus.target(sentence));
  }
  return batch;
}

std::vector<PackedBatch> sequential_batches(const Corpus& corpus, std::int64_t first, std::int64_t last,
                                            std::int64_t tokens) {
  std::vector<PackedBatch> batches;
  std::int64_t source_rows = 0, target_rows = 0;
  for (std::int64_t i = first; i < last; ++i) {
    const bool full = batches.empty() || batches.back().source.tokens() + corpus.source_length(i) + 1 > tokens ||
                      batches.back().target_in.tokens() + corpus.target_length(i) + 1 > tokens;
    if (full) {
      batches.emplace_back();
      batches.back().first_source_row = source_rows;
      batches.back().first_target_row = target_rows;
    }
    add_pair(batches.back(), corpus.source(i), corpus.target(i));
    source_rows += corpus.source_length(i) + 1;
    target_rows += corpus.target_length(i) + 1;
  }
  return batches;
}

}  // namespace babelring
