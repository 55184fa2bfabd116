#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/translate_options.h"
#include "nmt/data/text.h"

namespace babelring {

void tell_scores(const TranslateChoices& choices, const Rendering& rendering, const Vocabulary& vocabulary,
                 json::object& answer) {
  constexpr std::string_view space = "▁";
  struct Word {
    std::string text;
    double log_probability = 0;
    int pieces = 0;
  };
  json::array pieces;
  std::vector<Word> words;
  bool begins = true;
  for (std::size_t i = 0; i < rendering.ids.size(); ++i) {
    const std::string& piece = vocabulary.piece(rendering.ids[i]);
    const auto log_probability = static_cast<double>(rendering.token_scores[i]);
    pieces.push_back(json::object{{"piece", piece}, {"log_probability", log_probability}});
    const bool is_end = rendering.ids[i] == eos_id;
    if (!is_end && (begins || piece.starts_with(space))) words.emplace_back();
    begins = is_end;
    if (is_end) continue;
    const auto byte = byte_of(piece);
    words.back().text += byte ? std::string(1, *byte) : piece.substr(piece.starts_with(space) ? space.size() : 0);
    words.back().log_probability += log_probability;
    ++words.back().pieces;
  }
  if (choices.piece_scores) answer["pieces"] = std::move(pieces);
  if (!choices.word_scores) return;
  json::array& list = answer["words"].emplace_array();
  for (Word& word : words) {
    replace_invalid_utf8(word.text);
    list.push_back(json::object{{"word", word.text},
                                {"log_probability", word.log_probability},
                                {"confidence", std::exp(word.log_probability / word.pieces)}});
  }
}

json::array terms_json(const Translation& translation) {
  json::array terms;
  for (const FoundTerm& found : translation.terms) {
    terms.push_back(
        json::object{{"source", found.term.first}, {"target", found.term.second}, {"missed", found.missed}});
  }
  return terms;
}

namespace {

std::vector<AlignedPair> word_pairs(const Translation& translation, const Rendering& rendering,
                                    const Vocabulary& vocabulary) {
  return aligned_words(rendering.attention, word_numbers(translation.source_ids, vocabulary),
                       word_numbers(rendering.pieces(), vocabulary));
}

json::array pairs_json(const std::vector<AlignedPair>& pairs) {
  json::array array;
  for (const AlignedPair& pair : pairs) array.push_back(json::array{pair.source, pair.target});
  return array;
}

json::array pieces_json(const std::vector<std::int32_t>& ids, const Vocabulary& vocabulary) {
  json::array array;
  for (const std::int32_t id : ids) array.emplace_back(vocabulary.piece(id));
  return array;
}

/// Numbers for people and charts: a weight of attention means nothing beyond four digits.
double rounded(float weight) {
  return std::round(static_cast<double>(weight) * 1e4) / 1e4;
}

/// Calls use(weights) for each target piece, with a weight for each source piece of the line and the last for </s>.
void for_each_row(const Translation& translation, const Attention& attention, const auto& use) {
  for (const Attention::Part& part : attention.parts) {
    for (std::int64_t i = 0; i < part.target_pieces(); ++i) {
      const std::span<const float> row = part.row(i);
      std::vector<float> weights(translation.source_ids.size() + 1);
      std::copy(row.begin(), row.end() - 1, weights.begin() + part.first_source);
      weights.back() = row.back();
      use(weights);
    }
  }
}

}  // namespace

std::string alignment_text(const Translation& translation, const Rendering& rendering, const Vocabulary& vocabulary,
                           const TranslateChoices& choices) {
  const Attention& attention = rendering.attention;
  if (choices.alignment == AlignmentKind::hard) {
    return moses_form(choices.alignment_unit == AlignmentUnit::pieces ? aligned_pieces(attention)
                                                                      : word_pairs(translation, rendering, vocabulary));
  }
  std::string text;
  for_each_row(translation, attention, [&](const std::vector<float>& weights) {
    std::string row;
    for (const float weight : weights) row += fmt::format("{}{}", row.empty() ? "" : ",", rounded(weight));
    text += (text.empty() ? "" : " ") + row;
  });
  return text;
}

void add_alignment(json::object& object, const Translation& translation, const Rendering& rendering,
                   const Vocabulary& vocabulary, AlignmentKind kind) {
  object["alignment"] = pairs_json(word_pairs(translation, rendering, vocabulary));
  object["piece_alignment"] = pairs_json(aligned_pieces(rendering.attention));
  object["source_pieces"] = pieces_json(translation.source_ids, vocabulary);
  object["target_pieces"] = pieces_json(rendering.pieces(), vocabulary);
  if (kind != AlignmentKind::soft) return;
  json::array rows;
  for_each_row(translation, rendering.attention, [&](const std::vector<float>& weights) {
    json::array row;
    for (const float weight : weights) row.emplace_back(rounded(weight));
    rows.push_back(std::move(row));
  });
  object["attention"] = std::move(rows);
}

}  // namespace babelring
