#include "nmt/decode/beam_search.h"

#include <algorithm>

#include "nmt/data/vocabulary.h"

namespace babelring {
namespace {

/// Calls use(beam, sentence index) for each unfinished sentence.
template <class Use>
void for_each_open(std::vector<SentenceBeam>& beams, Use use) {
  for (std::size_t sentence = 0; sentence < beams.size(); ++sentence) {
    if (!beams[sentence].done()) use(beams[sentence], sentence);
  }
}

}  // namespace

std::vector<std::vector<Hypothesis>> BeamSearch::search(std::span<const std::span<const std::int32_t>> sources,
                                                        const BeamOptions& options, const Extras& extras) {
  options.check();
  if (sources.empty()) return {};
  std::vector<SentenceBeam> beams;
  std::int64_t max_length = 0, rows = 0;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    beams.emplace_back(options, std::ssize(sources[i]), extras.constraints.empty() ? nullptr : extras.constraints[i]);
    max_length = std::max(max_length, beams.back().max_length());
    rows += beams.back().width();
  }
  decoder_.start(sources, rows, max_length, extras.lists);
  const auto open = [](const SentenceBeam& beam) { return !beam.done(); };
  while (std::any_of(beams.begin(), beams.end(), open)) step(beams, options, extras.observer);
  std::vector<std::vector<Hypothesis>> found;
  for (const SentenceBeam& beam : beams) found.push_back(beam.n_best());
  return found;
}

void BeamSearch::step(std::vector<SentenceBeam>& beams, const BeamOptions& options, const Observer& observer) {
  std::vector<CachedDecoder::Row> rows;
  for_each_open(beams, [&](SentenceBeam& beam, std::size_t sentence) {
    for (SentenceBeam::Live& live : beam.live()) {
      rows.push_back({.token = live.ids.empty() ? bos_id : live.ids.back(),
                      .sentence = static_cast<std::int32_t>(sentence),
                      .parent = live.row});
      live.row = static_cast<std::int32_t>(rows.size()) - 1;
    }
  });
  const auto is_constrained = [](const SentenceBeam& beam) { return !beam.done() && beam.constraints() != nullptr; };
  const bool by_rules = options.rules.active() || std::ranges::any_of(beams, is_constrained);
  if (by_rules) {
    decoder_.step_all(rows);
  } else {
    decoder_.step(rows, options.beam + 3);  // next_tokens_needed() of each
  }
  for_each_open(beams, [&](SentenceBeam& beam, std::size_t sentence) {
    beam.advance(by_rules ? next_by_rules(beam, options) : next_by_model(beam));
    if (observer) observer(sentence, beam);
  });
}

std::vector<NextTokens> BeamSearch::next_by_model(const SentenceBeam& beam) const {
  std::vector<NextTokens> next;
  for (const SentenceBeam::Live& live : beam.live()) next.push_back(decoder_.next(live.row));
  return next;
}

std::vector<NextTokens> BeamSearch::next_by_rules(const SentenceBeam& beam, const BeamOptions& options) {
  std::vector<NextTokens> next;
  best_.resize(beam.live().size());
  for (std::size_t i = 0; i < best_.size(); ++i) {
    const SentenceBeam::Live& live = beam.live()[i];
    const std::span<float> log_probabilities = decoder_.log_probabilities(live.row);
    const Constraints* constraints = beam.constraints();
    if (constraints != nullptr) original_.assign(log_probabilities.begin(), log_probabilities.end());
    options.rules.apply(live.ids, log_probabilities);
    if (constraints != nullptr) constraints->apply(live.met, live.ids, original_, log_probabilities);
    Best& best = best_[i];
    best_tokens(log_probabilities, beam.next_tokens_needed(), best.log_probabilities, best.ids);
    if (constraints != nullptr) {
      for (const std::int32_t id : constraints->wanted(live.met, live.ids)) {
        if (std::ranges::find(best.ids, id) != best.ids.end()) continue;
        best.ids.push_back(id);
        best.log_probabilities.push_back(log_probabilities[static_cast<std::size_t>(id)]);
      }
    }
    next.push_back({.log_probabilities = best_[i].log_probabilities, .ids = best_[i].ids});
  }
  return next;
}

}  // namespace babelring
