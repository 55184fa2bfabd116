#include "nmt/decode/constraints.h"

#include <unicode/uchar.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

#include "base/failure.h"
#include "base/log.h"
#include "nmt/data/text.h"

namespace babelring {
namespace {

constexpr std::string_view space_text = "\u2581";
constexpr float impossible = -std::numeric_limits<float>::infinity();

bool ends_with(std::span<const std::int32_t> ids, std::span<const std::int32_t> last) {
  return ids.size() >= last.size() && std::ranges::equal(ids.last(last.size()), last);
}

}  // namespace

std::optional<char> byte_of(std::string_view piece) {
  if (piece.size() != 6 || !piece.starts_with("<0x") || !piece.ends_with('>')) return std::nullopt;
  int byte = 0;
  const auto [end, error] = std::from_chars(piece.data() + 3, piece.data() + 5, byte, 16);
  return error == std::errc() && end == piece.data() + 5 ? std::optional(static_cast<char>(byte)) : std::nullopt;
}

bool is_spaced_letter(std::int32_t character) {
  const int breaks = u_getIntPropertyValue(character, UCHAR_LINE_BREAK);
  return u_isalnum(character) && breaks != U_LB_IDEOGRAPHIC && breaks != U_LB_COMPLEX_CONTEXT &&
         breaks != U_LB_CONDITIONAL_JAPANESE_STARTER;
}

PieceTexts::PieceTexts(const Vocabulary& vocabulary) {
  for (std::int32_t id = 0; id < vocabulary.size(); ++id) {
    const std::string& piece = vocabulary.piece(id);
    const std::optional<char> byte = byte_of(piece);
    const bool is_text = id >= first_free_id && !piece.starts_with(absent_piece);
    texts_.push_back(!is_text ? std::string() : byte ? std::string(1, *byte) : piece);
    const std::string& text = texts_.back();
    std::size_t place = 0;
    continues_.push_back(!text.empty() && is_spaced_letter(next_character(text, place)));
  }
}

std::optional<std::string> PieceTexts::joined(std::span<const std::int32_t> ids) const {
  std::string whole;
  for (const std::int32_t id : ids) {
    if (id == unk_id) return std::nullopt;
    whole += text(id);
  }
  return whole;
}

std::optional<std::int32_t> PieceTexts::find(std::string_view text) const {
  const auto found = std::ranges::find(texts_, text);
  if (text.empty() || found == texts_.end()) return std::nullopt;
  return static_cast<std::int32_t>(found - texts_.begin());
}

void Constraints::set_prefix(std::vector<std::int32_t> pieces, std::string rest,
                             std::vector<std::int32_t> rest_pieces) {
  prefix_ = std::move(pieces);
  rest_ = std::move(rest);
  rest_pieces_ = std::move(rest_pieces);
}

std::vector<std::int32_t> Constraints::forced_pieces() const {
  std::vector<std::int32_t> pieces = prefix_;
  pieces.insert(pieces.end(), rest_pieces_.begin(), rest_pieces_.end());
  for (const auto& phrase : phrases_) pieces.insert(pieces.end(), phrase.begin(), phrase.end());
  if (rest_.size() <= space_text.size()) return pieces;  // any word may follow a space
  for (std::size_t id = 0; id < texts_->size(); ++id) {
    if (texts_->text(static_cast<std::int32_t>(id)).starts_with(rest_)) pieces.push_back(static_cast<std::int32_t>(id));
  }
  return pieces;
}

void Constraints::add_phrase(std::vector<std::int32_t> pieces) {
  if (phrases_.size() < max_phrases && std::ranges::find(phrases_, pieces) == phrases_.end()) {
    phrases_.push_back(std::move(pieces));
  }
}

std::int64_t Constraints::phrase_pieces() const {
  std::int64_t pieces = 0;
  for (const auto& phrase : phrases_) pieces += std::ssize(phrase);
  return pieces;
}

/// The number of pieces at the end of `ids` with which the phrase begins; not the whole phrase.
std::size_t Constraints::begun(std::size_t phrase, std::span<const std::int32_t> ids) const {
  const std::span<const std::int32_t> pieces = phrases_[phrase];
  for (std::size_t count = std::min(pieces.size() - 1, ids.size()); count > 0; --count) {
    if (ends_with(ids, pieces.first(count))) return count;
  }
  return 0;
}

Constraints::Met Constraints::after(const Met& met, std::span<const std::int32_t> ids, std::int32_t id) const {
  std::vector<std::int32_t> longer(ids.begin(), ids.end());
  longer.push_back(id);
  Met next{.phrases = texts_->continues_word(id) ? met.phrases & ~met.ended : met.phrases};
  std::size_t begun_pieces = 0;
  for (std::size_t i = 0; i < phrases_.size(); ++i) {
    const std::uint64_t bit = std::uint64_t{1} << i;
    if ((next.phrases & bit) == 0 && ends_with(longer, phrases_[i])) {
      next.ended |= bit;
      next.phrases |= bit;
    }
    if ((next.phrases & bit) != 0) {
      next.pieces += std::ssize(phrases_[i]);
    } else {
      begun_pieces = std::max(begun_pieces, begun(i, longer));
    }
  }
  next.pieces += static_cast<std::int64_t>(begun_pieces);
  return next;
}

std::vector<std::int32_t> Constraints::wanted(const Met& met, std::span<const std::int32_t> ids) const {
  std::vector<std::int32_t> pieces;
  for (std::size_t i = 0; i < phrases_.size(); ++i) {
    if ((met.phrases >> i & 1) != 0) continue;
    pieces.push_back(phrases_[i][begun(i, ids)]);
    pieces.push_back(phrases_[i].front());
  }
  std::ranges::sort(pieces);
  pieces.erase(std::ranges::unique(pieces).begin(), pieces.end());
  return pieces;
}

/// The text that is left of the prefix's rest after `ids`, which hold the pieces of the prefix; nothing if they are
/// longer than the prefix.
std::optional<std::string_view> Constraints::rest_after(std::span<const std::int32_t> ids, std::string& room) const {
  for (const std::int32_t id : ids.subspan(prefix_.size())) room += texts_->text(id);
  if (room.size() >= rest_.size()) return std::nullopt;
  return std::string_view(rest_).substr(room.size());
}

void Constraints::apply(const Met& met, std::span<const std::int32_t> ids, std::span<const float> original,
                        std::span<float> log_probabilities) const {
  if (!all_met(met)) log_probabilities[eos_id] = impossible;
  std::vector<std::size_t> allowed;
  if (ids.size() < prefix_.size()) {
    allowed = {static_cast<std::size_t>(prefix_[ids.size()])};
  } else {
    std::string room;
    const auto rest = rest_after(ids, room);
    if (!rest) {
      for (const std::int32_t id : wanted(met, ids)) {
        float& value = log_probabilities[static_cast<std::size_t>(id)];
        if (value == impossible) value = original[static_cast<std::size_t>(id)];
      }
      return;
    }
    for (std::size_t id = 0; id < texts_->size(); ++id) {
      const std::string_view text = texts_->text(static_cast<std::int32_t>(id));
      if (!text.empty() && (text.starts_with(*rest) || rest->starts_with(text))) allowed.push_back(id);
    }
  }
  const bool ruled_out =
      std::ranges::all_of(allowed, [&](std::size_t id) { return log_probabilities[id] == impossible; });
  std::vector<float> kept;
  for (const std::size_t id : allowed) kept.push_back(ruled_out ? original[id] : log_probabilities[id]);
  std::ranges::fill(log_probabilities, impossible);
  for (std::size_t i = 0; i < allowed.size(); ++i) log_probabilities[allowed[i]] = kept[i];
}

std::optional<std::string> require_prefix(std::string_view text, const std::string& place, const Vocabulary& vocabulary,
                                          const PieceTexts& texts, Constraints& constraints) {
  std::vector<std::int32_t> ids = vocabulary.encode(text, TextSide::target);
  if (ids.empty()) return std::nullopt;
  if (!texts.joined(ids)) {
    return fmt::format("{}: found '{:.200}', which has characters that the vocabulary lacks", place, printable(text));
  }
  std::size_t last = ids.size() - 1;  // the first piece of the last word
  while (last > 0 && !texts.text(ids[last]).starts_with(space_text)) --last;
  std::string rest(*texts.joined(std::span(ids).subspan(last)));
  std::vector<std::int32_t> rest_pieces(ids.begin() + static_cast<std::ptrdiff_t>(last), ids.end());
  if (text.ends_with(' ')) {
    last = ids.size();
    rest = space_text;
    const auto space = texts.find(space_text);
    rest_pieces.assign(space ? 1 : 0, space.value_or(unk_id));
  }
  ids.resize(last);
  constraints.set_prefix(std::move(ids), std::move(rest), std::move(rest_pieces));
  return std::nullopt;
}

}  // namespace babelring
