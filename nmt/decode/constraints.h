#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nmt/data/vocabulary.h"

namespace babelring {

/// The byte that a piece such as <0xE3> of a vocabulary with byte fallback stands for.
std::optional<char> byte_of(std::string_view piece);

/// True for a letter or digit of a script whose words spaces separate. `character`: a code point.
bool is_spaced_letter(std::int32_t character);

/// The texts that a vocabulary's pieces add to a translation: "▁" stands for a space, and a piece such as <0xE3> for
/// its byte. Those of <unk> and control pieces are empty.
class PieceTexts {
 public:
  explicit PieceTexts(const Vocabulary& vocabulary);

  std::string_view text(std::int32_t id) const { return texts_[static_cast<std::size_t>(id)]; }
  std::size_t size() const { return texts_.size(); }
  /// The concatenated texts, with "▁" for spaces. Nothing if the pieces hold <unk>.
  std::optional<std::string> joined(std::span<const std::int32_t> ids) const;
  /// True if the piece continues the word of the piece before: it begins with a letter or digit of a script whose words
  /// spaces separate.
  bool continues_word(std::int32_t id) const { return continues_[static_cast<std::size_t>(id)]; }
  /// The id of a piece that is no control piece; nothing if the vocabulary lacks it.
  std::optional<std::int32_t> find(std::string_view text) const;

 private:
  std::vector<std::string> texts_;
  std::vector<bool> continues_;
};

/// The pieces that one translation must hold. The search needs the log-probabilities of all pieces for it.
class Constraints {
 public:
  static constexpr std::size_t max_phrases = 64;

  /// `texts` must outlive the constraints.
  explicit Constraints(const PieceTexts& texts) : texts_(&texts) {}

  /// Lets the translation begin with these pieces, and its text then go on with `rest`, whose spaces are "▁". The
  /// pieces that follow may cut the rest in any way and go beyond it; `rest_pieces` are one way to cut it.
  void set_prefix(std::vector<std::int32_t> pieces, std::string rest, std::vector<std::int32_t> rest_pieces = {});
  /// Lets the translation hold these pieces in this order, at least one, before a piece that does not continue a word.
  /// Ignored beyond max_phrases.
  void add_phrase(std::vector<std::int32_t> pieces);

  bool has_phrases() const { return !phrases_.empty(); }
  /// The least number of pieces that hold the prefix.
  std::int64_t prefix_pieces() const { return std::ssize(prefix_) + (rest_.empty() ? 0 : 1); }
  /// The number of pieces in all phrases.
  std::int64_t phrase_pieces() const;

  /// The pieces that a search with few candidates needs beside them: of the prefix and of the phrases, and those that
  /// the prefix's last word may go on with.
  std::vector<std::int32_t> forced_pieces() const;

  /// The phrases that a hypothesis holds, one bit each.
  struct Met {
    std::uint64_t phrases = 0;
    std::uint64_t ended = 0;  // those of them that end with its last piece; a piece that continues the word undoes them
    std::int64_t pieces = 0;  // of these phrases, and of the beginning of another one at the hypothesis' end
  };
  /// The phrases that a hypothesis holds after `id` follows `ids`, of which `met` tells.
  Met after(const Met& met, std::span<const std::int32_t> ids, std::int32_t id) const;
  bool all_met(const Met& met) const { return met.pieces == phrase_pieces(); }
  /// The pieces that begin or continue a phrase that the hypothesis lacks.
  std::vector<std::int32_t> wanted(const Met& met, std::span<const std::int32_t> ids) const;

  /// Forbids the pieces that may not follow `ids` by minus infinity. `original` are the log-probabilities before other
  /// rules, which give way where they leave no piece that the prefix allows, and to the pieces of phrases.
  void apply(const Met& met, std::span<const std::int32_t> ids, std::span<const float> original,
             std::span<float> log_probabilities) const;

 private:
  std::optional<std::string_view> rest_after(std::span<const std::int32_t> ids, std::string& room) const;
  std::size_t begun(std::size_t phrase, std::span<const std::int32_t> ids) const;

  const PieceTexts* texts_;
  std::vector<std::int32_t> prefix_, rest_pieces_;
  std::string rest_;
  std::vector<std::vector<std::int32_t>> phrases_;
};

/// Adds the constraint that a translation begins with `text`: with the pieces of its complete words, and with the text
/// of the last one, which may be the beginning of a word; a space at the end completes that. An empty text asks for
/// nothing. Returns nothing, or a line that begins with `place` if the vocabulary lacks a character.
[[nodiscard]] std::optional<std::string> require_prefix(std::string_view text, const std::string& place,
                                                        const Vocabulary& vocabulary, const PieceTexts& texts,
                                                        Constraints& constraints);

}  // namespace babelring
