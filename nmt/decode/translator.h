#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nmt/data/vocabulary.h"
#include "nmt/decode/beam_search.h"
#include "nmt/decode/glossary.h"
#include "nmt/decode/sample_search.h"
#include "nmt/decode/shortlist.h"
#include "nmt/decode/split_source.h"

namespace babelring {

/// Minimum Bayes risk: chooses the translation whose mean chrF against samples, the expected utility under the model's
/// distribution, is largest. Source: Eikema and Aziz 2020; with independent samples as candidates too, and as
/// references, as Freitag et al. 2022.
struct MbrOptions {
  int n_best = 1;                // translations of a line with different texts, the best first
  bool beam_candidates = false;  // the whole beam of a search is among the candidates

  bool operator==(const MbrOptions&) const = default;
};

struct TranslateOptions {
  BeamOptions beam;
  // Draws translations instead of searching them. Parts of a split line are drawn with different random numbers.
  std::optional<DrawOptions> sample = {};
  // Chooses among the samples, which must be independent. The parts of a split line are chosen one by one.
  std::optional<MbrOptions> mbr = {};
  // Max source tokens (</s> included) and sentences per search. They bound memory. By the CPU backend they do not
  // affect the result, because packed weights make a row's products independent of its neighbours.
  std::int64_t batch_tokens = 2048;
  std::int64_t batch_sentences = 64;
  std::int64_t max_source_pieces = 256;  // longer lines are split and their parts translated separately
  std::optional<AttentionChoice> align;  // fills Rendering::attention and Translation::source_ids
  LineSize whole;                        // larger lines are split too, at sentence ends only (split_source.h)
  // Each translation has only pieces of the list of its source, its prefix and its terms; null: any.
  std::shared_ptr<const Shortlist> shortlist;
  std::shared_ptr<const Glossary> glossary;  // its terms in a line become phrases of the translation; null: none

  // The white space before, between and after the parts of a line is that of the source. Otherwise a space joins the
  // parts, as their scripts have it.
  bool keep_spacing = false;

  /// Throws UsageFailure naming the option, its value and its range.
  void check() const;
  /// Lines translated with equal options may share a batch.
  bool operator==(const TranslateOptions&) const = default;
};

/// One translation of a line. For a split line the texts of its parts are joined, their scores averaged and their
/// log-probabilities summed.
struct Rendering {
  std::string text;  // one line
  // Log-probability divided by the length penalty; at most 0, larger is better. With MbrOptions the expected chrF.
  double score = 0;
  double log_probability = 0;  // natural logarithm
  bool complete = true;        // false if cut at the maximum length
  // Its pieces, with </s> at the end of each part that is complete, and the log-probability of each.
  std::vector<std::int32_t> ids;
  std::vector<float> token_scores;
  Attention attention;  // of its pieces without </s>; empty unless TranslateOptions::align asks for it

  /// Its pieces without </s>.
  std::vector<std::int32_t> pieces() const {
    std::vector<std::int32_t> kept = ids;
    std::erase(kept, eos_id);
    return kept;
  }
};

/// The beginning that the translation of a line must have, see require_prefix(). Empty text: any.
struct Prefix {
  std::string text;
  std::string place;  // for messages
};

/// A term of the glossary that occurs in a line.
struct FoundTerm {
  Term term;
  bool missed = false;  // the best translation does not hold its translation
};

struct Translation {
  std::vector<Rendering> n_best;  // best first, or samples in the order drawn; empty for an empty line
  std::int64_t source_pieces = 0;
  std::vector<std::int32_t> source_ids;  // only with TranslateOptions::align
  std::int64_t parts = 1;                // number of parts of the source; 0 for an empty line
  bool cut_inside_sentence = false;      // a part ends inside a sentence; callers should warn
  std::vector<FoundTerm> terms;

  /// Text of the best translation; empty for an empty line.
  std::string text() const { return n_best.empty() ? std::string() : n_best.front().text; }
  /// False if the best translation, or one of its parts, was cut at the maximum length.
  bool complete() const { return n_best.empty() || n_best.front().complete; }
};

/// Lines to translate, with all that is known of each.
struct SourceLines {
  std::span<const std::span<const std::int32_t>> ids;  // subwords without </s>
  std::span<const std::string> texts = {};             // for spacing and the glossary; empty: only the ids are known
  std::span<const Prefix> prefixes = {};               // of each line; empty: none
  std::int64_t first = 0;                              // number of the first line in its text, from 0, for samples
  std::span<const std::int64_t> numbers = {};          // of each line, instead of `first`
};

/// Follows a translation from within translate_lines(). Either function may be empty.
struct TranslationFollower {
  /// After each step of the search for a line. text() is the line's best translation so far, which later steps may
  /// revise; it costs a decoding of its subwords.
  std::function<void(std::size_t line, const std::function<std::string()>& text)> step = {};
  /// A line is finished. Called once for each line, when it is, in any order.
  std::function<void(std::size_t line, const Translation& translation)> finished = {};
};

/// Translates lines of text. Sorts them by length, longest first, for batching and returns results in input order. Not
/// thread-safe.
class Translator {
 public:
  /// All arguments must outlive the translator. The model's weights must not change, because matmuls read packed
  /// copies; after further training, create a new translator.
  Translator(const Transformer& model, const Vocabulary& vocabulary, Backend& backend);
  /// The same with an ensemble.
  Translator(std::span<const EnsembleMember> members, Combination combination, const Vocabulary& vocabulary,
             Backend& backend);

  /// Returns one translation per line. `prefixes` are those of each line, or empty. `first_line`: number of the first
  /// line in its text, from 0. The samples of a line are a pure function of the model, the line, its number and the
  /// options, on the CPU in f32.
  std::vector<Translation> translate(const std::vector<std::string>& lines, const TranslateOptions& options,
                                     std::span<const Prefix> prefixes = {}, std::int64_t first_line = 0);
  /// Translates sources given as subword ids (without </s>), such as a prepared validation set.
  std::vector<Translation> translate_ids(std::span<const std::span<const std::int32_t>> sources,
                                         const TranslateOptions& options);
  /// Translates lines with all that is known of each. A line with a prefix is split only if it has more than
  /// max_source_pieces; then its first part has the prefix. Throws UsageFailure, before it calls `follower`, for a
  /// wrong_prefix().
  std::vector<Translation> translate_lines(const SourceLines& lines, const TranslateOptions& options,
                                           const TranslationFollower& follower = {});

  /// The first line whose prefix the vocabulary cannot write, or fills the maximum length; nothing if all lines can be
  /// translated. A caller that asks before it translates can keep what does not depend on that line.
  struct WrongPrefix {
    std::size_t line;
    std::string reason;  // a line that begins with the prefix's place
  };
  std::optional<WrongPrefix> wrong_prefix(const SourceLines& lines, const TranslateOptions& options);

  /// Bytes of the packed weights of all models.
  std::size_t packed_bytes() const { return search_.packed_bytes(); }

 private:
  struct Part;
  struct Work;
  void add_line(Work& work, std::size_t line);
  const PieceTexts& texts() { return texts_ ? *texts_ : texts_.emplace(vocabulary_); }
  std::optional<std::string> begin_with(const Prefix& prefix, std::int64_t max_length, Constraints& constraints);
  void constrain(Translation& translation, std::span<Part> parts, const TranslateOptions& options,
                 const Prefix* prefix);
  void translate_batch(Work& work, std::span<const std::size_t> batch);
  std::vector<std::vector<Rendering>> drawn(std::span<const std::span<const std::int32_t>> sources,
                                            std::span<const std::uint64_t> keys, const BeamSearch::Extras& extras,
                                            const TranslateOptions& options);
  std::vector<Rendering> of_largest_mean(const std::vector<Hypothesis>& samples, const std::vector<Hypothesis>& others,
                                         int n_best) const;
  std::vector<Rendering> aligned(std::vector<Rendering> found, std::size_t sentence);
  void finish_part(Work& work, Part& part, std::vector<Rendering> found) const;
  static std::string partial_text(const Work& work, std::size_t line);
  static void set_texts(std::span<Part> parts, std::string_view line, const Vocabulary& vocabulary);
  std::string text_of(const Hypothesis& hypothesis) const;
  std::vector<Rendering> rendered(const std::vector<Hypothesis>& hypotheses) const;

  const Vocabulary& vocabulary_;
  std::optional<PieceTexts> texts_;  // once constraints need them
  BeamSearch search_;
};

}  // namespace babelring
