#include "nmt/decode/translator.h"

#include <algorithm>
#include <numeric>

#include "nmt/base/failure.h"

namespace babelring {

namespace {

using Source = std::span<const std::int32_t>;

/// Non-empty sources, longest first, cut into searches of the allowed size: indices into `sources`.
std::vector<std::vector<std::size_t>> make_batches(std::span<const Source> sources, const TranslateOptions& options) {
  std::vector<std::size_t> order(sources.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::erase_if(order, [&](std::size_t i) { return sources[i].empty(); });
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return sources[a].size() > sources[b].size(); });
  std::vector<std::vector<std::size_t>> batches;
  std::int64_t tokens = 0;
  for (const std::size_t i : order) {
    const auto added = static_cast<std::int64_t>(sources[i].size()) + 1;
    const bool full = batches.empty() || tokens + added > options.batch_tokens ||
                      static_cast<std::int64_t>(batches.back().size()) == options.batch_sentences;
    if (full) {
      batches.emplace_back();
      tokens = 0;
    }
    batches.back().push_back(i);
    tokens += added;
  }
  return batches;
}

}  // namespace

void TranslateOptions::check() const {
  beam.check();
  const auto require_positive = [](const char* option, std::int64_t found) {
    if (found < 1) throw UsageFailure(fmt::format("{}: found {}, expected at least 1", option, found));
  };
  require_positive("batch-tokens", batch_tokens);
  require_positive("batch-sentences", batch_sentences);
  require_positive("max-source-pieces", max_source_pieces);
}

Translator::Translator(const Transformer& model, const Vocabulary& vocabulary, Backend& backend)
    : vocabulary_(vocabulary), search_(model, backend) {
  if (model.vocabulary() != vocabulary.size()) {
    fail("translator: the model has {} pieces, the vocabulary {}", model.vocabulary(), vocabulary.size());
  }
}

std::vector<Translation> Translator::translate(const std::vector<std::string>& lines, const TranslateOptions& options) {
  std::vector<std::vector<std::int32_t>> ids;
  for (const std::string& line : lines) ids.push_back(vocabulary_.encode(line));
  return translate_ids(std::vector<Source>(ids.begin(), ids.end()), options);
}

std::vector<Translation> Translator::translate_ids(std::span<const Source> sources, const TranslateOptions& options) {
  options.check();
  std::vector<Source> kept;
  for (const Source& source : sources) {
    kept.push_back(source.first(std::min(source.size(), static_cast<std::size_t>(options.max_source_pieces))));
  }
  std::vector<Translation> translations(sources.size());
  for (const std::vector<std::size_t>& batch : make_batches(kept, options)) {
    std::vector<Source> batch_sources;
    for (const std::size_t i : batch) batch_sources.push_back(kept[i]);
    const auto found = search_.search(batch_sources, options.beam);
    for (std::size_t j = 0; j < batch.size(); ++j) {
      Translation& translation = translations[batch[j]];
      translation = rendered(found[j], static_cast<std::int64_t>(sources[batch[j]].size()));
      translation.cut_pieces = translation.source_pieces - static_cast<std::int64_t>(kept[batch[j]].size());
    }
  }
  return translations;
}

Translation Translator::rendered(const std::vector<Hypothesis>& hypotheses, std::int64_t source_pieces) const {
  Translation translation{.source_pieces = source_pieces};
  for (const Hypothesis& hypothesis : hypotheses) {
    std::string text = vocabulary_.decode(hypothesis.ids);
    std::replace(text.begin(), text.end(), '\n', ' ');  // the n-th line out is of the n-th line in
    translation.n_best.push_back({.text = std::move(text),
                                  .score = hypothesis.score,
                                  .log_probability = hypothesis.log_probability,
                                  .complete = hypothesis.complete});
  }
  return translation;
}

}  // namespace babelring
