#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "nmt/decode/cached_decoder.h"
#include "nmt/decode/sentence_beam.h"

namespace babelring {

/// How translations are drawn from the model instead of searched. The next token comes from the model's distribution p
/// (of an ensemble: the combined one), changed by BeamOptions::rules and the <unk> penalty: p^(1 / temperature),
/// restricted to the top_k most probable tokens, then to the fewest most probable ones whose sum reaches top_p.
struct DrawOptions {
  int samples = 1;  // translations of a sentence
  // False: independent draws, which may be equal. True: draws without replacement, whose sequences of pieces differ; a
  // sentence gets fewer if there are no more. The first is distributed like an independent draw; a larger `samples`
  // only adds draws. Source: stochastic beam search, Kool et al. 2019.
  bool distinct = false;
  double temperature = 1;  // 0: always the most probable token, as greedy search
  std::int64_t top_k = 0;  // 0: all
  double top_p = 1;        // 1: all
  std::uint64_t seed = 1;

  bool operator==(const DrawOptions&) const = default;
  /// Throws UsageFailure naming the option, its value and its range.
  void check() const;
};

/// Draws translations of each of `sources` (subword ids without </s>), in the order drawn. `beam` gives the rules,
/// penalties and maximum lengths; its beam and n_best do not apply. `constraints` are those of each source, without
/// phrases; null: none. `lists` are as of CachedDecoder::start(). `keys[i]` selects the random numbers of source i.
/// A draw is a pure function of the next-token probabilities, the options and the key: in f32 on the CPU it does not
/// depend on the other sources. The log-probabilities of the hypotheses are those of the model after the rules, without
/// temperature, top_k and top_p.
std::vector<std::vector<Hypothesis>> sample_search(EnsembleDecoder& decoder,
                                                   std::span<const std::span<const std::int32_t>> sources,
                                                   std::span<const std::uint64_t> keys, const BeamOptions& beam,
                                                   const DrawOptions& options,
                                                   std::span<const Constraints* const> constraints = {},
                                                   IdLists lists = {});

}  // namespace babelring
