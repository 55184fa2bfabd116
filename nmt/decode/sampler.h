#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "nmt/core/random.h"
#include "nmt/model/language_model.h"

namespace babelring {

struct SampleOptions {
  std::int64_t length = 2048;              // tokens of a sequence, the prompt included
  std::vector<std::int32_t> prompt = {0};  // its first tokens
  double temperature = 1;                  // 0: always the most likely token
  std::int64_t top_k = 0;                  // choose among the k most likely tokens; 0: among all
  std::uint64_t seed = 1;

  /// Throws UsageFailure unless the prompt has at least one token of the vocabulary and fits into `length`.
  void check(std::int64_t vocabulary) const;
};

/// Draws a token from softmax(logits / temperature), restricted to the top_k largest logits; of equal logits the lowest
/// tokens count as larger. Takes one number from `random`.
std::int32_t draw_token(std::span<const float> logits, const SampleOptions& options, Random& random);

/// Draws sequences [0, count) from the model. Sequence i is a pure function of the model, the options and i. Throws
/// like SampleOptions::check().
std::vector<std::vector<std::int32_t>> sample_sequences(const LanguageModel& model, Backend& backend,
                                                        std::int64_t count, const SampleOptions& options);

}  // namespace babelring
