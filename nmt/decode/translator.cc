#include "nmt/decode/translator.h"

#include <unicode/uchar.h>
#include <unicode/utf8.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

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

/// The bytes at which the first character that is no white space begins and the last one ends; the text's length if
/// there is none.
std::pair<std::size_t, std::size_t> ends_of_words(std::string_view text) {
  std::pair<std::size_t, std::size_t> ends(text.size(), text.size());
  const auto size = static_cast<std::int32_t>(text.size());
  for (std::int32_t at = 0, next = 0; at < size; at = next) {
    UChar32 character = 0;
    U8_NEXT_OR_FFFD(text.data(), next, size, character);
    if (u_isUWhiteSpace(character)) continue;
    ends = {std::min(ends.first, static_cast<std::size_t>(at)), static_cast<std::size_t>(next)};
  }
  return ends;
}

/// The texts of a line's parts with the white space of the source around them. A single space is left to join_parts(),
/// as is no space.
std::string with_spacing(std::string_view line, std::span<const std::string_view> sources,
                         const std::vector<std::string>& texts) {
  std::string whole(line.substr(0, ends_of_words(line).first));
  std::vector<std::string> joined_so_far;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    joined_so_far.push_back(texts[i]);
    std::string spacing(sources[i].substr(ends_of_words(sources[i]).second));
    const bool is_last = i + 1 == texts.size();
    if (!is_last) spacing += sources[i + 1].substr(0, ends_of_words(sources[i + 1]).first);
    if (!is_last && (spacing.empty() || spacing == " ")) continue;
    whole += join_parts(joined_so_far) + spacing;
    joined_so_far.clear();
  }
  return whole;
}

/// Combines the n-best lists of a source's parts: the k-th result joins the k-th translation of every part.
/// `join` joins their texts.
std::vector<Rendering> joined(std::span<const std::vector<Rendering>> parts,
                              const std::function<std::string(const std::vector<std::string>& texts)>& join) {
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
    whole.text = join(texts);
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
  if (sample && glossary != nullptr) throw UsageFailure("glossary: found with samples, expected a search");
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
                                               std::span<const Prefix> prefixes, std::int64_t first_line) {
  std::vector<std::vector<std::int32_t>> ids;
  for (const std::string& line : lines) ids.push_back(vocabulary_.encode(line));
  return translate_sources(std::vector<Source>(ids.begin(), ids.end()), &lines, options, prefixes, first_line);
}

std::vector<Translation> Translator::translate_ids(std::span<const Source> sources, const TranslateOptions& options,
                                                   std::span<const Prefix> prefixes, std::int64_t first_line) {
  return translate_sources(sources, nullptr, options, prefixes, first_line);
}

std::vector<Translation> Translator::translate_sources(std::span<const Source> sources,
                                                       const std::vector<std::string>* lines,
                                                       const TranslateOptions& options,
                                                       std::span<const Prefix> prefixes, std::int64_t first_line) {
  options.check();
  std::vector<Translation> translations;
  std::vector<Part> parts;  // of all sources
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const Prefix* prefix = prefixes.empty() || prefixes[i].text.empty() ? nullptr : &prefixes[i];
    const SplitSource split = split_source(sources[i], vocabulary_, options.max_source_pieces,
                                           prefix == nullptr ? options.whole : LineSize());
    translations.push_back({.source_pieces = std::ssize(sources[i]),
                            .parts = std::ssize(split.parts),
                            .cut_inside_sentence = split.inside_sentence});
    for (const Source& part : split.parts) parts.push_back({.source = part});
    for (std::size_t part = 0; options.sample && part < split.parts.size(); ++part) {
      const auto line = static_cast<std::uint64_t>(first_line) + i;
      parts[parts.size() - split.parts.size() + part].key = derive_seed(options.sample->seed, line, part);
    }
    const std::span<Part> own = std::span(parts).last(split.parts.size());
    if (lines != nullptr && (options.glossary != nullptr || options.keep_spacing)) set_texts(own, (*lines)[i]);
    if (prefix != nullptr || options.glossary != nullptr) constrain(translations.back(), own, options, prefix);
  }
  std::vector<Source> whole;
  for (const Part& part : parts) whole.push_back(part.source);
  std::vector<std::vector<Rendering>> found(parts.size());
  for (const std::vector<std::size_t>& batch : make_batches(whole, options)) {
    std::vector<Source> batch_sources;
    std::vector<const Part*> batch_parts;
    for (const std::size_t i : batch) batch_parts.push_back(&parts[i]);
    std::vector<std::vector<Rendering>> results = search(batch_parts, options);
    for (std::size_t j = 0; j < batch.size(); ++j) found[batch[j]] = std::move(results[j]);
  }
  std::size_t first = 0;
  for (std::size_t i = 0; i < translations.size(); ++i) {
    Translation& translation = translations[i];
    const auto count = static_cast<std::size_t>(translation.parts);
    std::vector<std::string_view> texts;
    for (const Part& part : std::span(parts).subspan(first, count)) texts.push_back(part.text);
    const auto join = [&](const std::vector<std::string>& joined_texts) {
      const bool keeps = options.keep_spacing && lines != nullptr;
      return keeps ? with_spacing((*lines)[i], texts, joined_texts) : join_parts(joined_texts);
    };
    const std::span<const std::vector<Rendering>> of_parts = std::span(found).subspan(first, count);
    const bool as_it_is = count == 1 && !options.keep_spacing;
    translation.n_best = as_it_is ? of_parts.front() : joined(of_parts, join);
    first += count;
    for (FoundTerm& found_term : translation.terms) {
      found_term.missed = !holds_words(translation.text(), found_term.term.second);
    }
  }
  return translations;
}

std::vector<std::vector<Rendering>> Translator::search(std::span<const Part* const> parts,
                                                       const TranslateOptions& options) {
  std::vector<Source> sources;
  std::vector<const Constraints*> constraints;
  std::vector<std::uint64_t> keys;
  for (const Part* part : parts) {
    sources.push_back(part->source);
    constraints.push_back(part->constraints ? &*part->constraints : nullptr);
    keys.push_back(part->key);
  }
  std::vector<std::vector<Rendering>> results;
  if (!options.mbr) {
    const auto found = options.sample
                           ? sample_search(search_.decoder(), sources, keys, options.beam, *options.sample, constraints)
                           : search_.search(sources, options.beam, constraints);
    for (const std::vector<Hypothesis>& hypotheses : found) results.push_back(rendered(hypotheses));
    return results;
  }
  const auto samples = sample_search(search_.decoder(), sources, keys, options.beam, *options.sample, constraints);
  std::vector<std::vector<Hypothesis>> others(samples.size());
  if (options.mbr->beam_candidates) {
    BeamOptions beam = options.beam;
    beam.n_best = beam.beam;
    others = search_.search(sources, beam, constraints);
  }
  for (std::size_t i = 0; i < samples.size(); ++i) {
    results.push_back(of_largest_mean(samples[i], others[i], options.mbr->n_best));
  }
  return results;
}

std::vector<Rendering> Translator::of_largest_mean(const std::vector<Hypothesis>& samples,
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

/// Sets the texts of a line's parts.
void Translator::set_texts(std::span<Part> parts, std::string_view line) const {
  const std::vector<std::size_t> places = parts.size() > 1 ? vocabulary_.places(line) : std::vector<std::size_t>();
  std::size_t begin = 0, piece = 0;
  for (Part& part : parts) {
    piece += part.source.size();
    const std::size_t end = piece < places.size() ? std::max(begin, places[piece]) : line.size();
    part.text = line.substr(begin, end - begin);
    begin = end;
  }
}

/// Sets the constraints of a line's parts by its prefix and the terms that occur in them. A term that does not fit into
/// the maximum length, beside those before, is left out.
void Translator::constrain(Translation& translation, std::span<Part> parts, const TranslateOptions& options,
                           const Prefix* prefix) {
  if (!texts_) texts_.emplace(vocabulary_);
  std::vector<bool> found(options.glossary == nullptr ? 0 : options.glossary->size());
  for (Part& part : parts) {
    Constraints constraints(*texts_);
    std::int64_t pieces = 1;  // with </s>
    const std::int64_t max_length = options.beam.max_length(std::ssize(part.source));
    if (prefix != nullptr && &part == parts.data()) {
      require_prefix(prefix->text, prefix->place, vocabulary_, *texts_, constraints);
      pieces += constraints.prefix_pieces();
      if (pieces > max_length) {
        throw UsageFailure(fmt::format(
            "{}: found {} pieces, expected fewer than max-length-factor and max-length-extra allow for this line, {}",
            prefix->place, pieces - 1, max_length));
      }
    }
    const auto occurring =
        options.glossary == nullptr
            ? std::vector<std::size_t>()
            : options.glossary->occurring(part.text.empty() ? vocabulary_.decode(part.source) : std::string(part.text));
    for (const std::size_t number : occurring) {
      if (!found[number]) translation.terms.push_back({.term = options.glossary->term(number)});
      found[number] = true;
      const auto& phrase = options.glossary->pieces(number);
      pieces += std::ssize(phrase);
      if (pieces <= max_length) constraints.add_phrase(phrase);
    }
    if (constraints.prefix_pieces() > 0 || constraints.has_phrases()) part.constraints = std::move(constraints);
  }
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
    if (hypothesis.complete) n_best.back().ids.push_back(eos_id);
  }
  return n_best;
}

}  // namespace babelring
