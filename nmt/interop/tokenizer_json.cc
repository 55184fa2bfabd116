// The format: tokenizer.json of Hugging Face's tokenizers.
#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <set>

#include "base/failure.h"
#include "base/files.h"
#include "base/json.h"
#include "base/text.h"
#include "nmt/data/vocabulary.h"
#include "nmt/interop/export.h"

namespace babelring {
namespace {

/// "a b" for each way to join two pieces to a third, the joined piece of the best score first: what SentencePiece
/// looks for. One way a piece would not do, as its parts may come about in another order.
json::array merges_of(const SubwordModel& model) {
  std::vector<std::int32_t> ids = model.ids_of(SubwordModel::PieceType::normal);
  std::set<std::string_view> known;
  for (const std::int32_t id : ids) known.insert(model.pieces[static_cast<std::size_t>(id)].text);
  std::stable_sort(ids.begin(), ids.end(), [&](std::int32_t a, std::int32_t b) {
    return model.pieces[static_cast<std::size_t>(a)].score > model.pieces[static_cast<std::size_t>(b)].score;
  });
  json::array merges;
  for (const std::int32_t id : ids) {
    const std::string_view text = model.pieces[static_cast<std::size_t>(id)].text;
    for (std::size_t at = 1; at < text.size(); ++at) {
      const std::string_view left = text.substr(0, at), right = text.substr(at);
      if (known.contains(left) && known.contains(right)) {
        merges.emplace_back(std::string(left) + " " + std::string(right));
      }
    }
  }
  return merges;
}

json::object bpe_model(const SubwordModel& model) {
  json::object ids;
  for (const SubwordModel::Piece& piece : model.pieces) ids[piece.text] = ids.size();
  ids[pad_piece] = ids.size();
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", model.pieces[unk_id].text},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", !model.byte_fallback},
          {"byte_fallback", model.byte_fallback},
          // A symbol of the user is no result of merges.
          {"ignore_merges", !model.ids_of(SubwordModel::PieceType::user_defined).empty()},
          {"vocab", std::move(ids)},
          {"merges", merges_of(model)}};
}

json::object unigram_model(const SubwordModel& model) {
  json::array scores;
  for (const SubwordModel::Piece& piece : model.pieces) scores.push_back(json::array{piece.text, piece.score});
  scores.push_back(json::array{pad_piece, 0});
  return {
      {"type", "Unigram"}, {"unk_id", unk_id}, {"byte_fallback", model.byte_fallback}, {"vocab", std::move(scores)}};
}

json::object replacement(const char* kind, std::string_view pattern, std::string_view content) {
  return {{"type", "Replace"}, {"pattern", json::object{{kind, pattern}}}, {"content", content}};
}

json::value normalizer_of(const SubwordModel& model) {
  json::array steps;
  if (!model.character_map.empty()) {
    steps.push_back(json::object{{"type", "Precompiled"}, {"precompiled_charsmap", base64(model.character_map)}});
  }
  // JavaScript's Precompiled has the map of nmt_nfkc built in.
  if (model.folds_case()) steps.push_back(json::object{{"type", "Lowercase"}});
  if (model.removes_spaces) {
    steps.push_back(replacement("Regex", "^ +| +$", ""));
    steps.push_back(replacement("Regex", " {2,}", " "));
  }
  return json::object{{"type", "Sequence"}, {"normalizers", std::move(steps)}};
}

/// Spaces become U+2581. Symbols of the user are cut out of the text afterwards, as SentencePiece does; as added tokens
/// they would be cut out before, and the parts between lose their spaces. Control pieces are not: </s> is only text.
json::value pre_tokenizer_of(const SubwordModel& model) {
  json::array steps = {json::object{{"type", "Metaspace"},
                                    {"replacement", "\u2581"},
                                    {"prepend_scheme", model.starts_with_space ? "always" : "never"},
                                    {"split", false}}};
  std::vector<std::string_view> symbols;
  for (const std::int32_t id : model.ids_of(SubwordModel::PieceType::user_defined)) {
    symbols.push_back(model.pieces[static_cast<std::size_t>(id)].text);
  }
  std::stable_sort(symbols.begin(), symbols.end(), [](auto a, auto b) { return a.size() > b.size(); });
  for (const std::string_view symbol : symbols) {
    steps.push_back(json::object{
        {"type", "Split"}, {"pattern", json::object{{"String", symbol}}}, {"behavior", "Isolated"}, {"invert", false}});
  }
  return json::object{{"type", "Sequence"}, {"pretokenizers", std::move(steps)}};
}

json::object tokenizer_of(const SubwordModel& model) {
  const std::string_view end = model.pieces[eos_id].text;
  json::array decoders = {replacement("String", model.pieces[unk_id].text, " \u2047 "),
                          replacement("String", "\u2581", " "), json::object{{"type", "ByteFallback"}},
                          json::object{{"type", "Fuse"}}};
  if (model.starts_with_space || model.removes_spaces) {
    const std::int64_t most = model.removes_spaces ? exported_positions : 1;
    decoders.push_back(json::object{{"type", "Strip"}, {"content", " "}, {"start", most}, {"stop", 0}});
  }
  const auto part = [](const char* kind, std::string_view id) {
    return json::object{{kind, json::object{{"id", id}, {"type_id", 0}}}};
  };
  const json::object end_token = part("SpecialToken", end);
  const json::object post_processor = {
      {"type", "TemplateProcessing"},
      {"single", json::array{part("Sequence", "A"), end_token}},
      {"pair", json::array{part("Sequence", "A"), part("Sequence", "B"), end_token}},
      {"special_tokens",
       json::object{{end, json::object{{"id", end}, {"ids", json::array{eos_id}}, {"tokens", json::array{end}}}}}}};
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", json::array()},
          {"normalizer", normalizer_of(model)},
          {"pre_tokenizer", pre_tokenizer_of(model)},
          {"post_processor", post_processor},
          {"decoder", json::object{{"type", "Sequence"}, {"decoders", std::move(decoders)}}},
          {"model", model.type == SubwordModel::ModelType::bpe ? bpe_model(model) : unigram_model(model)}};
}

}  // namespace

void write_tokenizer_json(const Vocabulary& vocabulary, const std::filesystem::path& folder) {
  using ModelType = SubwordModel::ModelType;
  const SubwordModel model(vocabulary.bytes());
  if (model.type != ModelType::bpe && model.type != ModelType::unigram) {
    fail("export: the vocabulary is SentencePiece's model type {}, expected 1 (unigram) or 2 (bpe)",
         static_cast<int>(model.type));
  }
  for (const SubwordModel::Piece& piece : model.pieces) {
    if (piece.text == pad_piece) fail("export: the vocabulary has a piece {}, which the format adds", pad_piece);
  }
  write_file_atomically(folder / "tokenizer.json", to_text(tokenizer_of(model)) + "\n");
  const std::string_view unknown = model.pieces[unk_id].text, begin = model.pieces[bos_id].text,
                         end = model.pieces[eos_id].text;
  const json::object config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                               {"unk_token", unknown},
                               {"bos_token", begin},
                               {"eos_token", end},
                               {"pad_token", pad_piece},
                               {"additional_special_tokens", json::array{begin, end, pad_piece}},
                               {"clean_up_tokenization_spaces", false},
                               {"model_max_length", exported_positions}};
  write_file_atomically(folder / "tokenizer_config.json", to_text(config) + "\n");
}

}  // namespace babelring
