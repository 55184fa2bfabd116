#include "cli/alignment_output.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <utility>

#include "base/options/usage.h"

namespace babelring {
namespace {

std::vector<AlignedPair> word_pairs(const Translation& translation, const Rendering& rendering,
                                    const Vocabulary& vocabulary) {
  return aligned_words(rendering.attention, word_numbers(translation.source_ids, vocabulary),
                       word_numbers(rendering.ids, vocabulary));
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

void AlignmentOptions::declare(CLI::App& command) {
  const std::size_t others = command.get_options(nullptr).size();
  add_choice(command, "--alignment", kind, {{"none", Kind::none}, {"hard", Kind::hard}, {"soft", Kind::soft}},
             "adds what of the source each translation renders: hard: pairs of words, 0-0 1-1; soft: the attention of "
             "each piece to those of the source and to </s>. By the attention of the (first) model, so approximate "
             "unless it was trained with alignments");
  add_choice(command, "--alignment-unit", unit, {{"words", Unit::words}, {"pieces", Unit::pieces}},
             "units of the pairs of --alignment hard");
  command
      .add_option_function<int>(
          "--alignment-layer", [this](int layer) { choice.layer = layer - 1; },
          "decoder layer whose attention aligns, from 1; without: the one of the training, or the middle one")
      ->check(CLI::Range(1, 100))
      ->type_name("INT");
  command
      .add_option_function<int>(
          "--alignment-head", [this](int head) { choice.head = head - 1; },
          "its attention head, from 1; without: the one of the training, or the mean of all")
      ->check(CLI::Range(1, 256))
      ->type_name("INT");
  add_choice(command, "--alignment-step", choice.shifted, {{"input", true}, {"output", false}},
             "attention at the step whose input a piece is, or at the one that predicts it");
  const std::vector<CLI::Option*> options = command.get_options(nullptr);
  for (std::size_t i = others; i < options.size(); ++i) options[i]->group("Alignment");
}

std::optional<AttentionChoice> AlignmentOptions::choose(const Transformer& model, bool needed) const {
  choice.check(model.config().decoder_layers, model.config().heads);
  return kind == Kind::none && !needed ? std::nullopt : std::optional(choice);
}

std::string alignment_text(const Translation& translation, const Rendering& rendering, const Vocabulary& vocabulary,
                           const AlignmentOptions& options) {
  const Attention& attention = rendering.attention;
  if (options.kind == AlignmentOptions::Kind::hard) {
    return moses_form(options.unit == AlignmentOptions::Unit::pieces ? aligned_pieces(attention)
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
                   const Vocabulary& vocabulary, bool soft) {
  object["alignment"] = pairs_json(word_pairs(translation, rendering, vocabulary));
  object["piece_alignment"] = pairs_json(aligned_pieces(rendering.attention));
  object["source_pieces"] = pieces_json(translation.source_ids, vocabulary);
  object["pieces"] = pieces_json(rendering.ids, vocabulary);
  if (!soft) return;
  json::array rows;
  for_each_row(translation, rendering.attention, [&](const std::vector<float>& weights) {
    json::array row;
    for (const float weight : weights) row.emplace_back(rounded(weight));
    rows.push_back(std::move(row));
  });
  object["attention"] = std::move(rows);
}

}  // namespace babelring
