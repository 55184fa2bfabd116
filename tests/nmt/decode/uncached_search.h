#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "nmt/data/vocabulary.h"
#include "nmt/decode/sentence_beam.h"

namespace babelring {

/// Log-probabilities of all next tokens after a prefix (without <s>).
using NextModel = std::function<std::vector<double>(const std::vector<std::int32_t>& prefix)>;

/// Log-probabilities of logits, in double.
inline std::vector<double> log_softmax(std::vector<double> logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const double logit : logits) sum += std::exp(logit - largest);
  for (double& logit : logits) logit -= largest + std::log(sum);
  return logits;
}

/// Reference implementation of beam search, straight from the definition: every step evaluates the model on every whole
/// prefix, sorts all extensions, and runs to the maximum length. Expected results for SentenceBeam and BeamSearch.
inline std::vector<Hypothesis> uncached_search(const NextModel& model, std::int64_t source_pieces,
                                               const BeamOptions& options) {
  std::vector<Hypothesis> live(1), finished;
  const std::int64_t max_length = options.max_length(source_pieces);
  for (std::int64_t length = 1; length <= max_length && !live.empty(); ++length) {
    std::vector<Hypothesis> extended;
    for (const Hypothesis& hypothesis : live) {
      const std::vector<double> next = model(hypothesis.ids);
      for (std::size_t id = 0; id < next.size(); ++id) {
        if (id == bos_id || (id == eos_id && hypothesis.ids.empty()) || std::isinf(next[id])) continue;
        Hypothesis longer = hypothesis;
        longer.ids.push_back(static_cast<std::int32_t>(id));
        longer.log_probability += next[id] - (id == unk_id ? options.unk_penalty : 0);
        longer.score = longer.log_probability / options.penalty(length, static_cast<std::int32_t>(id) == eos_id);
        extended.push_back(longer);
      }
    }
    std::stable_sort(extended.begin(), extended.end(),
                     [](const auto& a, const auto& b) { return a.log_probability > b.log_probability; });
    if (extended.empty()) break;
    const std::size_t open_slots = static_cast<std::size_t>(options.beam) - finished.size();
    extended.resize(std::min(open_slots, extended.size()));
    live.clear();
    for (Hypothesis& hypothesis : extended) {
      if (hypothesis.ids.back() != eos_id) {
        live.push_back(hypothesis);
      } else {
        hypothesis.ids.pop_back();
        finished.push_back(hypothesis);
      }
    }
  }
  std::stable_sort(finished.begin(), finished.end(), [](const auto& a, const auto& b) { return a.score > b.score; });
  for (Hypothesis& hypothesis : live) {
    hypothesis.complete = false;
    finished.push_back(hypothesis);
  }
  finished.resize(std::min(finished.size(), static_cast<std::size_t>(options.n_best)));
  return finished;
}

}  // namespace babelring
