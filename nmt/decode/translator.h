#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nmt/data/vocabulary.h"
#include "nmt/decode/beam_search.h"
#include "nmt/decode/glossary.h"
#include "nmt/decode/split_source.h"

namespace babelring {

struct TranslateOptions {
  BeamOptions beam;
  // Max source tokens (</s> included) and sentences per search. They bound memory. By the CPU backend they do not
  // affect the result, because packed weights make a row's products independent of its neighbours.
  std::int64_t batch_tokens = 2048;
  std::int64_t batch_sentences = 64;
  std::int64_t max_source_pieces = 256;      // longer lines are split and their parts translated separately
  LineSize whole;                            // larger lines are split too, at sentence ends only (split_source.h)
  std::shared_ptr<const Glossary> glossary;  // its terms in a line become phrases of the translation; null: none

  // The white space before, between and after the parts of a line is that of the source. Otherwise a space joins the
  // parts, as their scripts have it.
  bool keep_spacing = false;

  /// Throws UsageFailure naming the option, its value and its range.
  void check() const;
};

/// One translation of a line. For a split line the texts of its parts are joined, their scores averaged and their
/// log-probabilities summed.
struct Rendering {
  std::string text;            // one line
  double score = 0;            // log-probability divided by the length penalty; at most 0, larger is better
  double log_probability = 0;  // natural logarithm
  bool complete = true;        // false if cut at the maximum length
  // Its pieces, with </s> at the end of each part that is complete, and the log-probability of each.
  std::vector<std::int32_t> ids;
  std::vector<float> token_scores;
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
  std::vector<Rendering> n_best;  // best first; empty for an empty line
  std::int64_t source_pieces = 0;
  std::int64_t parts = 1;            // number of parts of the source; 0 for an empty line
  bool cut_inside_sentence = false;  // a part ends inside a sentence; callers should warn
  std::vector<FoundTerm> terms;

  /// Text of the best translation; empty for an empty line.
  std::string text() const { return n_best.empty() ? std::string() : n_best.front().text; }
  /// False if the best translation, or one of its parts, was cut at the maximum length.
  bool complete() const { return n_best.empty() || n_best.front().complete; }
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

  /// Returns one translation per line. `prefixes` are those of each line, or empty. A line with a prefix is split only
  /// if it has more than max_source_pieces; then its first part has the prefix. Throws UsageFailure if a prefix cannot
  /// be, or fills the maximum length.
  std::vector<Translation> translate(const std::vector<std::string>& lines, const TranslateOptions& options,
                                     std::span<const Prefix> prefixes = {});

  /// Translates sources given as subword ids (without </s>), such as a prepared validation set.
  std::vector<Translation> translate_ids(std::span<const std::span<const std::int32_t>> sources,
                                         const TranslateOptions& options, std::span<const Prefix> prefixes = {});

  /// Bytes of the packed weights of all models.
  std::size_t packed_bytes() const { return search_.packed_bytes(); }

 private:
  struct Part {
    std::span<const std::int32_t> source;
    std::string_view text = {};  // of the line; empty: only `source` is known
    std::optional<Constraints> constraints = {};
  };
  std::vector<Translation> translate_sources(std::span<const std::span<const std::int32_t>> sources,
                                             const std::vector<std::string>* lines, const TranslateOptions& options,
                                             std::span<const Prefix> prefixes);
  void set_texts(std::span<Part> parts, std::string_view line) const;
  void constrain(Translation& translation, std::span<Part> parts, const TranslateOptions& options,
                 const Prefix* prefix);
  std::vector<Rendering> rendered(const std::vector<Hypothesis>& hypotheses) const;

  const Vocabulary& vocabulary_;
  std::optional<PieceTexts> texts_;  // once constraints need them
  BeamSearch search_;
};

}  // namespace babelring
