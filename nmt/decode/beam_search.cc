#include "nmt/decode/beam_search.h"

#include <algorithm>

#include "nmt/data/special_ids.h"

namespace babelring {

namespace {

/// Calls use(beam, sentence number) for each sentence still searched.
template <class Use>
void for_each_open(std::vector<SentenceBeam>& beams, Use use) {
  for (std::size_t sentence = 0; sentence < beams.size(); ++sentence) {
    if (!beams[sentence].done()) use(beams[sentence], sentence);
  }
}

}  // namespace

std::vector<std::vector<Hypothesis>> BeamSearch::search(std::span<const std::span<const std::int32_t>> sources,
                                                        const BeamOptions& options) {
  options.check();
  if (sources.empty()) return {};
  std::vector<SentenceBeam> beams;
  std::int64_t max_length = 0;
  for (const auto& source : sources) {
    beams.emplace_back(options, static_cast<std::int64_t>(source.size()));
    beams.back().live().front().row = static_cast<std::int32_t>(beams.size() - 1);
    max_length = std::max(max_length, beams.back().max_length());
  }
  decoder_.start(sources, static_cast<std::int64_t>(sources.size()) * options.beam, max_length);
  const auto open = [](const SentenceBeam& beam) { return !beam.done(); };
  while (std::any_of(beams.begin(), beams.end(), open)) {
    step(beams, options);
    place(beams);
  }
  std::vector<std::vector<Hypothesis>> found;
  for (const SentenceBeam& beam : beams) found.push_back(beam.n_best());
  return found;
}

void BeamSearch::step(std::vector<SentenceBeam>& beams, const BeamOptions& options) {
  std::size_t count = 0;
  for_each_open(beams, [&](const SentenceBeam& beam, std::size_t) { count += beam.live().size(); });
  std::vector<CachedDecoder::Row> rows(count);
  for_each_open(beams, [&](const SentenceBeam& beam, std::size_t sentence) {
    for (const SentenceBeam::Live& live : beam.live()) {
      rows[static_cast<std::size_t>(live.row)] = {.token = live.ids.empty() ? bos_id : live.ids.back(),
                                                  .sentence = static_cast<std::int32_t>(sentence)};
    }
  });
  decoder_.step(rows, SentenceBeam::next_tokens_needed(options));
  for_each_open(beams, [&](SentenceBeam& beam, std::size_t) {
    std::vector<NextTokens> next;
    for (const SentenceBeam::Live& live : beam.live()) next.push_back(decoder_.next(live.row));
    beam.advance(next);
  });
}

void BeamSearch::place(std::vector<SentenceBeam>& beams) {
  std::vector<SentenceBeam::Live*> hypotheses;
  std::vector<std::int32_t> parents;
  for_each_open(beams, [&](SentenceBeam& beam, std::size_t) {
    for (SentenceBeam::Live& live : beam.live()) {
      hypotheses.push_back(&live);
      parents.push_back(live.row);
    }
  });
  const RowPlacement placement = place_rows(parents);
  for (std::size_t i = 0; i < hypotheses.size(); ++i) hypotheses[i]->row = placement.rows[i];
  decoder_.move(placement.moves);
}

}  // namespace babelring
