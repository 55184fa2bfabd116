#include "nmt/data/synthetic.h"

#include <vector>

#include "nmt/base/failure.h"
#include "nmt/core/random.h"
#include "nmt/data/special_ids.h"

namespace babelring {

Corpus make_synthetic(const SyntheticOptions& options) {
  if (options.sentences < 1 || options.vocabulary_size <= first_free_id || options.min_length < 1 ||
      options.max_length < options.min_length) {
    fail(
        "synthetic task: {} sentences of {} to {} pieces, vocabulary of {}; expected at least 1 sentence, lengths from "
        "1 in "
        "order and more than {} pieces",
        options.sentences, options.min_length, options.max_length, options.vocabulary_size, first_free_id);
  }
  Random random(derive_seed(options.seed, 0));
  const auto lengths = static_cast<std::uint64_t>(options.max_length - options.min_length) + 1;
  const auto pieces = static_cast<std::uint64_t>(options.vocabulary_size - first_free_id);
  std::vector<std::vector<std::int32_t>> sources(static_cast<std::size_t>(options.sentences));
  std::vector<std::vector<std::int32_t>> targets;
  targets.reserve(sources.size());
  for (auto& source : sources) {
    source.resize(static_cast<std::size_t>(options.min_length) + random.below(lengths));
    for (std::int32_t& id : source) id = first_free_id + static_cast<std::int32_t>(random.below(pieces));
    if (options.task == SyntheticTask::copy) {
      targets.push_back(source);
    } else {
      targets.emplace_back(source.rbegin(), source.rend());
    }
  }
  return Corpus::from_memory(sources, targets);
}

}  // namespace babelring
