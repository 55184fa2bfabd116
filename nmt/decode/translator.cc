#include "nmt/decode/translator.h"

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
std::vector<std::vector<std::size_t>> make_batches(const std::vector<Source>& sources,
                                                   const TranslateOptions& options) {
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
      whole.attention.append(part[k].attention);
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

/// A part of a line.
struct Translator::Part {
  Source source;
  std::size_t line = 0;
  std::string_view text = {};  // of the line; empty: only `source` is known
  std::optional<Constraints> constraints = {};
  std::uint64_t key = 0;              // of the random numbers of its samples
  std::vector<Rendering> found = {};  // empty until it is translated
  std::string best_so_far = {};
};

/// The lines of a call, and what is known of their translations.
struct Translator::Work {
  const SourceLines& lines;
  const TranslateOptions& options;
  const TranslationFollower& follower;
  std::vector<Translation> translations = {};
  std::vector<Part> parts = {};
  std::vector<std::size_t> first_parts = {}, unfound = {};  // of each line: its first part; parts not translated

  std::span<const Part> parts_of(std::size_t line) const {
    return std::span(parts).subspan(first_parts[line], static_cast<std::size_t>(translations[line].parts));
  }
  bool keeps_spacing() const { return options.keep_spacing && !lines.texts.empty(); }
};

std::vector<Translation> Translator::translate(const std::vector<std::string>& lines, const TranslateOptions& options,
                                               std::span<const Prefix> prefixes, std::int64_t first_line) {
  std::vector<std::vector<std::int32_t>> ids;
  for (const std::string& line : lines) ids.push_back(vocabulary_.encode(line));
  const std::vector<Source> sources(ids.begin(), ids.end());
  return translate_lines({.ids = sources, .texts = lines, .prefixes = prefixes, .first = first_line}, options);
}

std::vector<Translation> Translator::translate_ids(std::span<const Source> sources, const TranslateOptions& options) {
  return translate_lines({.ids = sources}, options);
}

std::vector<Translation> Translator::translate_lines(const SourceLines& lines, const TranslateOptions& options,
                                                     const TranslationFollower& follower) {
  options.check();
  search_.keep_attention(options.align);
  Work work{.lines = lines, .options = options, .follower = follower};
  for (std::size_t line = 0; line < lines.ids.size(); ++line) add_line(work, line);
  for (std::size_t line = 0; line < lines.ids.size(); ++line) {
    if (work.unfound[line] == 0 && follower.finished) follower.finished(line, work.translations[line]);
  }
  std::vector<Source> sources;
  for (const Part& part : work.parts) sources.push_back(part.source);
  for (const std::vector<std::size_t>& batch : make_batches(sources, options)) translate_batch(work, batch);
  return std::move(work.translations);
}

/// Sets the texts of a line's parts.
void Translator::set_texts(std::span<Part> parts, std::string_view line, const Vocabulary& vocabulary) {
  const std::vector<std::size_t> ends = parts.size() > 1 ? vocabulary.piece_ends(line) : std::vector<std::size_t>();
  std::size_t begin = 0, pieces = 0;
  for (Part& part : parts) {
    pieces += part.source.size();
    const std::size_t end = pieces < ends.size() ? ends[pieces - 1] : line.size();
    part.text = line.substr(begin, end - begin);
    begin = end;
  }
}

void Translator::add_line(Work& work, std::size_t line) {
  const TranslateOptions& options = work.options;
  const Source source = work.lines.ids[line];
  const bool has_prefix = !work.lines.prefixes.empty() && !work.lines.prefixes[line].text.empty();
  const Prefix* prefix = has_prefix ? &work.lines.prefixes[line] : nullptr;
  const SplitSource split =
      split_source(source, vocabulary_, options.max_source_pieces, has_prefix ? LineSize() : options.whole);
  work.translations.push_back({.source_pieces = std::ssize(source),
                               .parts = std::ssize(split.parts),
                               .cut_inside_sentence = split.inside_sentence});
  if (options.align) work.translations.back().source_ids.assign(source.begin(), source.end());
  work.first_parts.push_back(work.parts.size());
  work.unfound.push_back(split.parts.size());
  for (const Source& part : split.parts) work.parts.push_back({.source = part, .line = line});
  const std::int64_t number =
      work.lines.numbers.empty() ? work.lines.first + static_cast<std::int64_t>(line) : work.lines.numbers[line];
  for (std::size_t i = 0; options.sample && i < split.parts.size(); ++i) {
    work.parts[work.first_parts.back() + i].key =
        derive_seed(options.sample->seed, static_cast<std::uint64_t>(number), i);
  }
  const std::span<Part> own = std::span(work.parts).last(split.parts.size());
  if (!work.lines.texts.empty() && (options.glossary != nullptr || options.keep_spacing)) {
    set_texts(own, work.lines.texts[line], vocabulary_);
  }
  if (has_prefix || options.glossary != nullptr) constrain(work.translations.back(), own, options, prefix);
}

/// Constrains the first part of a line. Returns nothing, or why the prefix cannot be one.
std::optional<std::string> Translator::begin_with(const Prefix& prefix, std::int64_t max_length,
                                                  Constraints& constraints) {
  if (auto reason = require_prefix(prefix.text, prefix.place, vocabulary_, texts(), constraints)) return reason;
  if (constraints.prefix_pieces() < max_length) return std::nullopt;  // </s> is one more
  return fmt::format(
      "{}: found {} pieces, expected fewer than max-length-factor and max-length-extra allow for this line, {}",
      prefix.place, constraints.prefix_pieces(), max_length);
}

std::optional<Translator::WrongPrefix> Translator::wrong_prefix(const SourceLines& lines,
                                                                const TranslateOptions& options) {
  for (std::size_t line = 0; line < lines.prefixes.size(); ++line) {
    if (lines.prefixes[line].text.empty() || lines.ids[line].empty()) continue;
    const SplitSource split = split_source(lines.ids[line], vocabulary_, options.max_source_pieces, LineSize());
    Constraints constraints(texts());
    const std::int64_t max_length = options.beam.max_length(std::ssize(split.parts.front()));
    if (auto reason = begin_with(lines.prefixes[line], max_length, constraints)) return WrongPrefix{line, *reason};
  }
  return std::nullopt;
}

/// Sets the constraints of a line's parts by its prefix and the terms that occur in them. A term that does not fit into
/// the maximum length, beside those before, is left out.
void Translator::constrain(Translation& translation, std::span<Part> parts, const TranslateOptions& options,
                           const Prefix* prefix) {
  std::vector<bool> found(options.glossary == nullptr ? 0 : options.glossary->size());
  for (Part& part : parts) {
    Constraints constraints(texts());
    std::int64_t pieces = 1;  // with </s>
    const std::int64_t max_length = options.beam.max_length(std::ssize(part.source));
    if (prefix != nullptr && &part == parts.data()) {
      if (auto reason = begin_with(*prefix, max_length, constraints)) throw UsageFailure(*reason);
      pieces += constraints.prefix_pieces();
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

void Translator::translate_batch(Work& work, std::span<const std::size_t> batch) {
  std::vector<Source> sources;
  std::vector<const Constraints*> constraints;
  std::vector<std::vector<std::int32_t>> lists;
  std::vector<std::uint64_t> keys;
  for (const std::size_t i : batch) {
    const Part& part = work.parts[i];
    sources.push_back(part.source);
    keys.push_back(part.key);
    constraints.push_back(part.constraints ? &*part.constraints : nullptr);
    if (work.options.shortlist) lists.push_back(work.options.shortlist->list_of(part.source, constraints.back()));
  }
  BeamSearch::Extras extras{.constraints = constraints, .lists = lists};
  const auto finish = [&](Part& part, std::size_t sentence, std::vector<Rendering> found) {
    finish_part(work, part, work.options.align ? aligned(std::move(found), sentence) : std::move(found));
  };
  if (work.options.sample) {
    std::vector<std::vector<Rendering>> samples = drawn(sources, keys, extras, work.options);
    for (std::size_t j = 0; j < batch.size(); ++j) finish(work.parts[batch[j]], j, std::move(samples[j]));
    return;
  }
  extras.observer = [&](std::size_t sentence, const SentenceBeam& beam) {
    Part& part = work.parts[batch[sentence]];
    if (beam.done()) {
      finish(part, sentence, rendered(beam.n_best()));
    } else if (work.follower.step) {
      work.follower.step(part.line, [&] {
        part.best_so_far = text_of(beam.n_best().front());
        return partial_text(work, part.line);
      });
    }
  };
  const auto hypotheses = search_.search(sources, work.options.beam, extras);
  for (std::size_t j = 0; j < batch.size(); ++j) {
    Part& part = work.parts[batch[j]];
    if (part.found.empty()) finish(part, j, rendered(hypotheses[j]));
  }
}

/// Samples of each source, or those of them, and of a beam, with the largest mean chrF.
std::vector<std::vector<Rendering>> Translator::drawn(std::span<const Source> sources,
                                                      std::span<const std::uint64_t> keys,
                                                      const BeamSearch::Extras& extras,
                                                      const TranslateOptions& options) {
  const auto samples =
      sample_search(search_.decoder(), sources, keys, options.beam, *options.sample, extras.constraints, extras.lists);
  std::vector<std::vector<Rendering>> results;
  if (!options.mbr) {
    for (const std::vector<Hypothesis>& hypotheses : samples) results.push_back(rendered(hypotheses));
    return results;
  }
  std::vector<std::vector<Hypothesis>> others(samples.size());
  BeamOptions beam = options.beam;
  beam.n_best = beam.beam;
  if (options.mbr->beam_candidates) others = search_.search(sources, beam, extras);
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

/// Adds the attention of the translations of a sentence of the batch.
std::vector<Rendering> Translator::aligned(std::vector<Rendering> found, std::size_t sentence) {
  for (Rendering& rendering : found) {
    const std::span<const std::int32_t> ids(rendering.ids);
    rendering.attention = search_.attention(sentence, rendering.complete ? ids.first(ids.size() - 1) : ids);
  }
  return found;
}

/// Keeps the translations of a part, and with the last part of a line those of the line.
void Translator::finish_part(Work& work, Part& part, std::vector<Rendering> found) const {
  part.found = std::move(found);
  part.best_so_far = part.found.front().text;
  if (--work.unfound[part.line] > 0) return;
  Translation& translation = work.translations[part.line];
  std::vector<std::vector<Rendering>> all;
  std::vector<std::string_view> sources;
  for (const Part& each : work.parts_of(part.line)) {
    all.push_back(each.found);
    sources.push_back(each.text);
  }
  translation.n_best = joined(all, [&](const std::vector<std::string>& texts) {
    if (!work.keeps_spacing()) return texts.size() == 1 ? texts.front() : join_parts(texts);
    return join_with_spacing(work.lines.texts[part.line], sources, texts);
  });
  for (FoundTerm& found_term : translation.terms) {
    found_term.missed = !holds_words(translation.text(), found_term.term.second);
  }
  if (work.follower.finished) work.follower.finished(part.line, translation);
}

/// The best translation so far of a line, of which parts are not finished.
std::string Translator::partial_text(const Work& work, std::size_t line) {
  std::vector<std::string> known;
  for (const Part& part : work.parts_of(line)) {
    if (!part.best_so_far.empty()) known.push_back(part.best_so_far);
  }
  return join_parts(known);
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
    if (hypothesis.complete) n_best.back().ids.push_back(eos_id);
  }
  return n_best;
}

}  // namespace babelring
