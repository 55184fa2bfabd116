#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/json.h"
#include "nmt/decode/markup.h"

namespace CLI {
class App;
}

namespace babelring {

/// Which lines are split into their sentences, which are translated separately.
enum class SplitLines {
  automatic,   // lines larger than those that the model was usually trained on
  always,      // lines of several sentences
  long_lines,  // lines of more than --max-source subwords; for models of documents
};

/// hard: pairs of source and target words or pieces. soft: also the attention.
enum class AlignmentKind { none, hard, soft };
enum class AlignmentUnit { words, pieces };

/// Options of samples, as a command line or a request gives them.
struct SampleChoices {
  bool sample = false, gumbel = false, independent = false, mbr = false;
  DrawOptions draw;  // but for `samples`, `distinct` and `seed`
  std::int64_t seed = 1;
  int mbr_samples = 32;
};

/// Options of translations, as a command line or a request gives them, before a model is known.
struct TranslateChoices {
  TranslateOptions translate;
  SplitLines split = SplitLines::automatic;
  SampleChoices samples;
  std::vector<std::string> suppressed;             // words and pieces that no translation has, see suppress()
  std::vector<Term> terms;                         // of the glossary
  bool piece_scores = false, word_scores = false;  // are told
  AlignmentKind alignment = AlignmentKind::none;
  AlignmentUnit alignment_unit = AlignmentUnit::words;   // of what alignment_text() writes
  std::int64_t alignment_layer = 0, alignment_head = 0;  // from 1; 0: those of AttentionChoice
  MarkupForm markup = MarkupForm::none;

  /// The attention that the answer needs; none if it needs no alignment.
  std::optional<AttentionChoice> attention() const;
};

/// An option of translating: --NAME of a command, and the member NAME of a request, with _ in place of -.
struct TranslateOption {
  struct Words {
    std::vector<std::string> allowed;
    std::string initial;
    std::function<void(std::size_t index)> choose;
  };
  using Texts = std::vector<std::string>;  // the lines of a file; in a request an array

  std::string name, help;
  using Terms = std::vector<Term>;  // likewise, with a tab between both sides; in a request arrays of two
  std::variant<int*, std::int64_t*, double*, bool*, Texts*, Terms*, Words> value;
  double low = 0, high = 0;     // of a number, inclusive
  double high_in_request = -1;  // in a request, which shares its process with others; below low: the command's only
  std::string alias = {};       // another name; empty: none
};

/// The options of a search, whose values are the members of `choices`, which must outlive them.
std::vector<TranslateOption> search_options(TranslateChoices& choices);
/// The options that say what is told of a translation, likewise.
std::vector<TranslateOption> answer_options(TranslateChoices& choices);

/// The options of samples, likewise.
std::vector<TranslateOption> sampling_options(TranslateChoices& choices);
/// Gives the options of samples that are without effect here their first values: all, unless it samples. So those of a
/// command line that serves are for the requests that sample, and no contradiction in others.
void drop_unused(SampleChoices& samples);
/// Turns `choices.samples` into options of `choices.translate`. `beam_given`: the command line or request names a beam.
/// Throws UsageFailure if they do not go together.
void choose_search(TranslateChoices& choices, bool beam_given);

/// Adds the options to a command.
void declare(CLI::App& command, std::span<const TranslateOption> options);

/// Sets the option that a member of a request names; null keeps its value. False if none is named so. Throws
/// UsageFailure that names the member, its value and its range.
bool read_member(std::string_view name, const json::value& value, std::span<const TranslateOption> options);

/// Adds texts to the pieces that `rules` suppress. piece:TEXT, and a text with "▁", name a piece of the vocabulary. Any
/// other text is cut to pieces as a beginning of a line is, which are not chosen in this order. Throws UsageFailure if
/// the vocabulary lacks a piece.
void suppress(std::span<const std::string> texts, const Vocabulary& vocabulary, TokenRules& rules);

/// Adds to an answer what the options want to be told of a translation beside its text: pieces and words with their
/// log-probabilities.
void tell_scores(const TranslateChoices& choices, const Rendering& rendering, const Vocabulary& vocabulary,
                 json::object& answer);
/// The terms that occur in a line, as JSON.
json::array terms_json(const Translation& translation);
/// A hard alignment in Moses' form, "0-0 1-1", or the rows of a soft one in Marian's, by piece and with </s>:
/// "0.9,0.1 0.2,0.8".
std::string alignment_text(const Translation& translation, const Rendering& rendering, const Vocabulary& vocabulary,
                           const TranslateChoices& choices);

/// Adds the members `alignment`, `piece_alignment` (arrays of pairs), `source_pieces`, `target_pieces` and, of a soft
/// one, `attention`.
void add_alignment(json::object& object, const Translation& translation, const Rendering& rendering,
                   const Vocabulary& vocabulary, AlignmentKind kind);

}  // namespace babelring
