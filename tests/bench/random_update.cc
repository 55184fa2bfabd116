#include "tests/bench/random_update.h"

#include <algorithm>
#include <utility>

#include "base/failure.h"
#include "nmt/core/random.h"
#include "nmt/data/vocabulary.h"

namespace babelring {

namespace {

/// `sentences` of `length` tokens, the last of each </s>.
std::vector<std::int32_t> random_tokens(Random& random, std::int64_t sentences, std::int64_t length,
                                        std::int64_t vocabulary) {
  std::vector<std::int32_t> ids;
  for (std::int64_t i = 1; i <= sentences * length; ++i) {
    const auto piece = random.below(static_cast<std::uint64_t>(vocabulary - first_free_id));
    ids.push_back(i % length == 0 ? eos_id : first_free_id + static_cast<std::int32_t>(piece));
  }
  return ids;
}

/// Sentences [first, last) of equal length.
PackedSequences sequences(const std::vector<std::int32_t>& ids, std::int64_t length, std::int64_t first,
                          std::int64_t last) {
  PackedSequences packed{.ids = {ids.begin() + first * length, ids.begin() + last * length}};
  for (std::int64_t i = 1; i <= last - first; ++i) packed.offsets.push_back(static_cast<std::int32_t>(i * length));
  return packed;
}

/// The decoder's input: each sentence one place later, behind <s>.
void shift(std::vector<std::int32_t>& ids, std::int64_t length) {
  for (auto begin = ids.begin(); begin != ids.end(); begin += length) {
    std::shift_right(begin, begin + length, 1);
    *begin = bos_id;
  }
}

}  // namespace

UpdateBatches random_update(const RandomUpdateOptions& options, int rank, int ranks) {
  if (options.vocabulary <= first_free_id) {
    fail("random update: a vocabulary of {}; more than {} are needed", options.vocabulary, first_free_id);
  }
  Random random(20261121);
  const std::int64_t all = options.sentences;
  const auto source = random_tokens(random, all, options.source_length, options.vocabulary);
  const auto target = random_tokens(random, all, options.target_length, options.vocabulary);
  const std::int64_t first = all * rank / ranks, last = all * (rank + 1) / ranks;
  PackedBatch batch;
  batch.source = sequences(source, options.source_length, first, last);
  batch.target_in = sequences(target, options.target_length, first, last);
  batch.target_out = batch.target_in.ids;
  shift(batch.target_in.ids, options.target_length);
  batch.first_source_row = first * options.source_length;
  batch.first_target_row = first * options.target_length;
  UpdateBatches update{.global_sentences = all,
                       .global_source_tokens = all * options.source_length,
                       .global_target_tokens = all * options.target_length,
                       .sentences = last - first,
                       .source_tokens = batch.source.tokens(),
                       .target_tokens = batch.target_in.tokens()};
  update.micro_batches.push_back(std::move(batch));
  return update;
}

}  // namespace babelring
