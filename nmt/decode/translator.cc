#include "nmt/decode/translator.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "base/failure.h"
#include "nmt/core/random.h"
#include "nmt/metrics/chrf.h"

namespace babelring {

namespace {

using Source = std::span<const std::int32_t>;

/// How many times less than without samples a batch holds, so that these take no more memory than a beam of 8.
std::int64_t batch_divisor(const TranslateOptions& options) {
  constexpr std::int64_t usual = 8;
  return options.sample ? (options.sample->samples + usual - 1) / usual : 1;
}

/// Batches of source indices, longest sources first, within the limits of `options`. No source may be empty.
std::vector<std::vector<std::size_t>> make_batches(std::span<const Source> sources, const TranslateOptions& options) {
  const std::int64_t divisor = batch_divisor(options);
  const std::int64_t max_tokens = options.batch_tokens / divisor;
  const std::int64_t max_sentences = std::max<std::int64_t>(1, options.batch_sentences / divisor);
  std::vector<std::size_t> order(sources.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return sources[a].size() > sources[b].size(); });
  std::vector<std::vector<std::size_t>> batches;
  std::int64_t tokens = 0;
  for (const std::size_t i : order) {
    const auto added = static_cast<std::int64_t>(sources[i].size()) + 1;
    const bool full = batches.empty() || tokens + added > max_tokens ||
                      static_cast<std::int64_t>(batches.back().size()) == max_sentences;
    if (full) {
      batches.emplace_back();
      tokens = 0;
    }
    batches.back().push_back(i);
    tokens += added;
  }
  return batches;
}

/// Combines the n-best lists of a source's parts: the k-th result joins the k-th translation of every part.
std::vector<Rendering> joined(std::span<const std::vector<Rendering>> parts) {
  if (parts.size() == 1) return parts.front();
  std::vector<Rendering> n_best;
  const auto shortest =
      std::min_element(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.size() < b.size(); });
  for (std::size_t k = 0; shortest != parts.end() && k < shortest->size(); ++k) {
    Rendering whole;
    std::vector<std::string> texts;
    for (const std::vector<Rendering>& part : parts) {
      texts.push_back(part[k].text);
      whole.score += part[k].score / static_cast<double>(parts.size());
      whole.log_probability += part[k].log_probability;
      whole.complete &= part[k].complete;
      whole.ids.insert(whole.ids.end(), part[k].ids.begin(), part[k].ids.end());
      whole.token_scores.insert(whole.token_scores.end(), part[k].token_scores.begin(), part[k].token_scores.end());
    }
    whole.text = join_parts(texts);
    n_best.push_back(std::move(whole));
  }
  return n_best;
}

}  // namespace

void TranslateOptions::check() const {
  BeamOptions search = beam;
  if (sample) search.n_best = 1;  // has no meaning
  search.check();
  if (sample) sample->check();
  if (mbr && (!sample || sample->distinct)) throw UsageFailure("mbr: expected independent samples");
  const auto require_positive = [](const char* option, std::int64_t found) {
    if (found < 1) throw UsageFailure(fmt::format("{}: found {}, expected at least 1", option, found));
  };
  require_positive("batch-tokens", batch_tokens);
  require_positive("batch-sentences", batch_sentences);
  require_positive("max-source-pieces", max_source_pieces);
}

Translator::Translator(const Transformer& model, const Vocabulary& vocabulary, Backend& backend)
    : Translator({{{.model = &model}}}, Combination::probabilities, vocabulary, backend) {}

Translator::Translator(std::span<const EnsembleMember> members, Combination combination, const Vocabulary& vocabulary,
                       Backend& backend)
    : vocabulary_(vocabulary), search_(members, combination, backend) {
  const std::int64_t pieces = members.front().model->vocabulary();
  if (pieces != vocabulary.size()) {
    fail("translator: the model has {} pieces, the vocabulary {}", pieces, vocabulary.size());
  }
}

std::vector<Translation> Translator::translate(const std::vector<std::string>& lines, const TranslateOptions& options,
                                               std::int64_t first_line) {
  std::vector<std::vector<std::int32_t>> ids;
  for (const std::string& line : lines) ids.push_back(vocabulary_.encode(line));
  return translate_ids(std::vector<Source>(ids.begin(), ids.end()), options, first_line);
}

std::vector<Translation> Translator::translate_ids(std::span<const Source> sources, const TranslateOptions& options,
                                                   std::int64_t first_line) {
  options.check();
  std::vector<Translation> translations;
  std::vector<Source> parts;        // parts of all sources
  std::vector<std::uint64_t> keys;  // of the random numbers of a part
  for (const Source& source : sources) {
    const auto line = static_cast<std::uint64_t>(first_line + std::ssize(translations));
    const SplitSource split = split_source(source, vocabulary_, options.max_source_pieces, options.whole);
    translations.push_back({.source_pieces = std::ssize(source),
                            .parts = std::ssize(split.parts),
                            .cut_inside_sentence = split.inside_sentence});
    for (std::size_t part = 0; part < split.parts.size(); ++part) {
      keys.push_back(derive_seed(options.sample ? options.sample->seed : 0, line, part));
    }
    parts.insert(parts.end(), split.parts.begin(), split.parts.end());
  }
  std::vector<std::vector<Rendering>> found(parts.size());
  for (const std::vector<std::size_t>& batch : make_batches(parts, options)) {
    std::vector<Source> batch_sources;
    std::vector<std::uint64_t> batch_keys;
    for (const std::size_t i : batch) {
      batch_sources.push_back(parts[i]);
      batch_keys.push_back(keys[i]);
    }
    std::vector<std::vector<Rendering>> results = search(batch_sources, batch_keys, options);
    for (std::size_t j = 0; j < batch.size(); ++j) found[batch[j]] = std::move(results[j]);
  }
  std::size_t first = 0;
  for (Translation& translation : translations) {
    const auto count = static_cast<std::size_t>(translation.parts);
    translation.n_best = joined(std::span(found).subspan(first, count));
    first += count;
  }
  return translations;
}

std::vector<std::vector<Rendering>> Translator::search(std::span<const Source> sources,
                                                       std::span<const std::uint64_t> keys,
                                                       const TranslateOptions& options) {
  std::vector<std::vector<Rendering>> results;
  if (!options.mbr) {
    const auto found = options.sample ? sample_search(search_.decoder(), sources, keys, options.beam, *options.sample)
                                      : search_.search(sources, options.beam);
    for (const std::vector<Hypothesis>& hypotheses : found) results.push_back(rendered(hypotheses));
    return results;
  }
  const auto samples = sample_search(search_.decoder(), sources, keys, options.beam, *options.sample);
  std::vector<std::vector<Hypothesis>> others(samples.size());
  if (options.mbr->beam_candidates) {
    BeamOptions beam = options.beam;
    beam.n_best = beam.beam;
    others = search_.search(sources, beam);
  }
  for (std::size_t i = 0; i < samples.size(); ++i) {
    results.push_back(least_risk(samples[i], others[i], options.mbr->n_best));
  }
  return results;
}

std::vector<Rendering> Translator::least_risk(const std::vector<Hypothesis>& samples,
                                              const std::vector<Hypothesis>& others, int n_best) const {
  std::vector<Rendering> candidates;  // with different texts
  std::vector<double> drawn;          // how often each was
  std::vector<std::string> texts;
  const auto add = [&](const std::vector<Hypothesis>& hypotheses, double times) {
    for (Rendering& rendering : rendered(hypotheses)) {
      const auto at = static_cast<std::size_t>(std::ranges::find(texts, rendering.text) - texts.begin());
      if (at == texts.size()) {
        texts.push_back(rendering.text);
        candidates.push_back(std::move(rendering));
        drawn.push_back(0);
      }
      drawn[at] += times;
    }
  };
  add(samples, 1);
  add(others, 0);
  const std::vector<double> chrf = Chrf().score_pairs(texts);
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    // A sample is no reference for itself, or else samples would have an advantage over the beam.
    double sum = drawn[i] > 0 ? -chrf[i * texts.size() + i] : 0, references = drawn[i] > 0 ? -1 : 0;
    for (std::size_t j = 0; j < candidates.size(); ++j) {
      sum += drawn[j] * chrf[i * texts.size() + j];
      references += drawn[j];
    }
    candidates[i].score = references > 0 ? sum / references : 0;
  }
  std::ranges::stable_sort(candidates, std::ranges::greater(), &Rendering::score);
  candidates.resize(std::min(candidates.size(), static_cast<std::size_t>(n_best)));
  return candidates;
}

std::vector<Rendering> Translator::rendered(const std::vector<Hypothesis>& hypotheses) const {
  std::vector<Rendering> n_best;
  for (const Hypothesis& hypothesis : hypotheses) {
    std::string text = vocabulary_.decode(hypothesis.ids);
    std::replace(text.begin(), text.end(), '\n', ' ');  // keeps output lines aligned with input lines
    n_best.push_back({.text = std::move(text),
                      .score = hypothesis.score,
                      .log_probability = hypothesis.log_probability,
                      .complete = hypothesis.complete,
                      .ids = hypothesis.ids,
                      .token_scores = hypothesis.token_scores});
  }
  return n_best;
}

}  // namespace babelring
