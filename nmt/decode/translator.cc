#include "nmt/decode/translator.h"

#include <algorithm>
#include <numeric>

#include "base/failure.h"

namespace babelring {

namespace {

using Source = std::span<const std::int32_t>;

/// Batches of source indices, longest sources first, within the limits of `options`. No source may be empty.
std::vector<std::vector<std::size_t>> make_batches(std::span<const Source> sources, const TranslateOptions& options) {
  std::vector<std::size_t> order(sources.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
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
    for (const std::vector<Rendering>& part : parts) whole.attention.append(part[k].attention);
    whole.text = join_parts(texts);
    n_best.push_back(std::move(whole));
  }
  return n_best;
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
    : Translator({{{.model = &model}}}, Combination::probabilities, vocabulary, backend) {}

Translator::Translator(std::span<const EnsembleMember> members, Combination combination, const Vocabulary& vocabulary,
                       Backend& backend)
    : vocabulary_(vocabulary), search_(members, combination, backend) {
  const std::int64_t pieces = members.front().model->vocabulary();
  if (pieces != vocabulary.size()) {
    fail("translator: the model has {} pieces, the vocabulary {}", pieces, vocabulary.size());
  }
}

std::vector<Translation> Translator::translate(const std::vector<std::string>& lines, const TranslateOptions& options) {
  std::vector<std::vector<std::int32_t>> ids;
  for (const std::string& line : lines) ids.push_back(vocabulary_.encode(line));
  return translate_ids(std::vector<Source>(ids.begin(), ids.end()), options);
}

namespace {

/// The parts of all lines, and what is known of their translations.
struct OpenParts {
  std::vector<Source> sources;
  std::vector<std::size_t> lines;                 // of each part
  std::vector<std::vector<Rendering>> found;      // of each part; empty until it is translated
  std::vector<std::string> texts;                 // of each part: the best so far
  std::vector<std::size_t> first_parts, unfound;  // of each line: its first part; its parts that are not translated

  void add(const SplitSource& split) {
    first_parts.push_back(sources.size());
    unfound.push_back(split.parts.size());
    sources.insert(sources.end(), split.parts.begin(), split.parts.end());
    lines.resize(sources.size(), first_parts.size() - 1);
    found.resize(sources.size());
    texts.resize(sources.size());
  }

  /// The texts of a line's parts.
  std::string text(std::size_t line, std::int64_t parts) const {
    std::vector<std::string> known;
    for (const std::string& part : std::span(texts).subspan(first_parts[line], static_cast<std::size_t>(parts))) {
      if (!part.empty()) known.push_back(part);
    }
    return join_parts(known);
  }
};

}  // namespace

std::vector<Translation> Translator::translate_ids(std::span<const Source> sources, const TranslateOptions& options,
                                                   const TranslationFollower& follower) {
  options.check();
  search_.keep_attention(options.align);
  std::vector<Translation> translations;
  OpenParts open;
  for (const Source& source : sources) {
    const SplitSource split = split_source(source, vocabulary_, options.max_source_pieces, options.whole);
    translations.push_back({.source_pieces = std::ssize(source),
                            .parts = std::ssize(split.parts),
                            .cut_inside_sentence = split.inside_sentence});
    if (options.align) translations.back().source_ids.assign(source.begin(), source.end());
    open.add(split);
    if (split.parts.empty() && follower.finished) follower.finished(translations.size() - 1, translations.back());
  }
  const auto finish = [&](std::size_t part, std::size_t sentence, const std::vector<Hypothesis>& hypotheses) {
    if (!open.found[part].empty()) return;
    open.found[part] = rendered(hypotheses);
    for (Rendering& rendering : open.found[part]) {
      if (options.align) rendering.attention = search_.attention(sentence, rendering.ids);
    }
    open.texts[part] = open.found[part].front().text;
    const std::size_t line = open.lines[part];
    if (--open.unfound[line] > 0) return;
    Translation& translation = translations[line];
    const auto parts = static_cast<std::size_t>(translation.parts);
    translation.n_best = joined(std::span(open.found).subspan(open.first_parts[line], parts));
    if (follower.finished) follower.finished(line, translation);
  };
  for (const std::vector<std::size_t>& batch : make_batches(open.sources, options)) {
    std::vector<Source> batch_sources;
    for (const std::size_t i : batch) batch_sources.push_back(open.sources[i]);
    const BeamSearch::Observer observe = [&](std::size_t sentence, const SentenceBeam& beam) {
      const std::size_t part = batch[sentence], line = open.lines[part];
      if (beam.done()) {
        finish(part, sentence, beam.n_best());
      } else if (follower.step) {
        follower.step(line, [&] {
          open.texts[part] = text_of(beam.n_best().front());
          return open.text(line, translations[line].parts);
        });
      }
    };
    const auto hypotheses = search_.search(batch_sources, options.beam, observe);
    for (std::size_t j = 0; j < batch.size(); ++j) finish(batch[j], j, hypotheses[j]);
  }
  return translations;
}

std::string Translator::text_of(const Hypothesis& hypothesis) const {
  std::string text = vocabulary_.decode(hypothesis.ids);
  std::replace(text.begin(), text.end(), '\n', ' ');  // keeps output lines aligned with input lines
  return text;
}

std::vector<Rendering> Translator::rendered(const std::vector<Hypothesis>& hypotheses) const {
  std::vector<Rendering> n_best;
  for (const Hypothesis& hypothesis : hypotheses) {
    n_best.push_back({.text = text_of(hypothesis),
                      .score = hypothesis.score,
                      .log_probability = hypothesis.log_probability,
                      .complete = hypothesis.complete,
                      .ids = hypothesis.ids,
                      .token_scores = hypothesis.token_scores});
  }
  return n_best;
}

}  // namespace babelring
