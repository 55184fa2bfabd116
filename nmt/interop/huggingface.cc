// The formats: MarianMT of transformers (models/marian/modeling_marian.py, configuration_marian.py) and tokenizer.json
// of tokenizers.
#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <functional>
#include <map>
#include <set>

#include "base/failure.h"
#include "base/files.h"
#include "base/json.h"
#include "base/text.h"
#include "nmt/checkpoint/safetensors.h"
#include "nmt/data/protobuf.h"
#include "nmt/interop/export.h"

namespace babelring {
namespace {

constexpr std::string_view pad = "<pad>";  // the piece behind the last of the vocabulary
constexpr int longest_translation = 512;   // tokens; that of published MarianMT models

/// The fields of a SentencePiece model that another tokenizer needs; numbers of fields and values are those of
/// sentencepiece_model.proto.
struct SubwordModel {
  enum class PieceType { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };
  enum class ModelType { unigram = 1, bpe = 2, word = 3, character = 4 };
  struct Piece {
    std::string_view text;
    float score = 0;
    PieceType type = PieceType::normal;
  };

  std::vector<Piece> pieces;
  ModelType type = ModelType::unigram;
  bool byte_fallback = false, starts_with_space = true, removes_spaces = true;
  std::string_view normalization, character_map;

  /// The views are of `bytes`. Throws Failure if they are no message.
  explicit SubwordModel(std::string_view bytes) {
    for (MessageReader model(bytes); model.next();) {
      if (model.field() == 1) read_piece(model.bytes());
      if (model.field() == 2) read_trainer(model.bytes());
      if (model.field() == 3) read_normalizer(model.bytes());
    }
  }
  bool folds_case() const { return normalization.ends_with("_cf"); }
  std::vector<std::int32_t> ids_of(PieceType wanted) const {
    std::vector<std::int32_t> ids;
    for (std::size_t id = 0; id < pieces.size(); ++id) {
      if (pieces[id].type == wanted) ids.push_back(static_cast<std::int32_t>(id));
    }
    return ids;
  }

 private:
  void read_piece(std::string_view bytes) {
    Piece& piece = pieces.emplace_back();
    for (MessageReader reader(bytes); reader.next();) {
      if (reader.field() == 1) piece.text = reader.bytes();
      if (reader.field() == 2) piece.score = reader.number();
      if (reader.field() == 3) piece.type = static_cast<PieceType>(reader.integer());
    }
  }
  void read_trainer(std::string_view bytes) {
    for (MessageReader reader(bytes); reader.next();) {
      if (reader.field() == 3) type = static_cast<ModelType>(reader.integer());
      if (reader.field() == 35) byte_fallback = reader.integer() != 0;
    }
  }
  void read_normalizer(std::string_view bytes) {
    for (MessageReader reader(bytes); reader.next();) {
      if (reader.field() == 1) normalization = reader.bytes();
      if (reader.field() == 2) character_map = reader.bytes();
      if (reader.field() == 3) starts_with_space = reader.integer() != 0;
      if (reader.field() == 4) removes_spaces = reader.integer() != 0;
    }
  }
};

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
  ids[pad] = ids.size();
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
  scores.push_back(json::array{pad, 0});
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

void write_tokenizer(const Vocabulary& vocabulary, const std::filesystem::path& folder) {
  using ModelType = SubwordModel::ModelType;
  const SubwordModel model(vocabulary.bytes());
  if (model.type != ModelType::bpe && model.type != ModelType::unigram) {
    fail("export: the vocabulary is SentencePiece's model type {}, expected 1 (unigram) or 2 (bpe)",
         static_cast<int>(model.type));
  }
  for (const SubwordModel::Piece& piece : model.pieces) {
    if (piece.text == pad) fail("export: the vocabulary has a piece {}, which the format adds", pad);
  }
  write_file_atomically(folder / "tokenizer.json", to_text(tokenizer_of(model)) + "\n");
  const std::string_view unknown = model.pieces[unk_id].text, begin = model.pieces[bos_id].text,
                         end = model.pieces[eos_id].text;
  const json::object config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                               {"unk_token", unknown},
                               {"bos_token", begin},
                               {"eos_token", end},
                               {"pad_token", pad},
                               {"additional_special_tokens", json::array{begin, end, pad}},
                               {"clean_up_tokenization_spaces", false},
                               {"model_max_length", exported_positions}};
  write_file_atomically(folder / "tokenizer_config.json", to_text(config) + "\n");
}

/// Control ids; both configuration files have them, as the older versions read one and the newer the other. A
/// translation that is cut has no </s>; without the member MarianConfig would force id 0.
json::object control_ids(std::int32_t pad_id) {
  return {{"pad_token_id", pad_id},
          {"bos_token_id", bos_id},
          {"eos_token_id", eos_id},
          {"decoder_start_token_id", bos_id},
          {"forced_eos_token_id", nullptr}};
}

void write_configs(const ModelConfig& model, std::int32_t pad_id, const std::filesystem::path& folder) {
  json::object config = control_ids(pad_id);
  const json::object shape = {{"model_type", "marian"},
                              {"architectures", json::array{"MarianMTModel"}},
                              {"is_encoder_decoder", true},
                              {"vocab_size", pad_id + 1},
                              {"decoder_vocab_size", pad_id + 1},
                              {"d_model", model.width},
                              {"encoder_layers", model.encoder_layers},
                              {"decoder_layers", model.decoder_layers},
                              {"num_hidden_layers", model.encoder_layers},
                              {"encoder_attention_heads", model.heads},
                              {"decoder_attention_heads", model.heads},
                              {"encoder_ffn_dim", model.inner},
                              {"decoder_ffn_dim", model.inner},
                              {"activation_function", name_of(model.activation)},
                              {"dropout", model.dropout},
                              {"attention_dropout", model.attention_dropout},
                              {"activation_dropout", model.activation_dropout},
                              {"scale_embedding", true},
                              {"static_position_embeddings", true},
                              {"max_position_embeddings", exported_positions},
                              {"share_encoder_decoder_embeddings", model.tied_embeddings == TiedEmbeddings::all},
                              {"tie_word_embeddings", model.tied_embeddings != TiedEmbeddings::none},
                              {"use_cache", true},
                              {"torch_dtype", "float32"}};
  config.insert(shape.begin(), shape.end());
  write_file_atomically(folder / "config.json", to_text(config) + "\n");
  json::object generation = control_ids(pad_id);
  // As our search: never <s> or <pad>, at least one piece.
  generation["bad_words_ids"] = json::array{json::array{pad_id}, json::array{bos_id}};
  generation["min_new_tokens"] = 1;
  generation["max_length"] = longest_translation;
  generation["num_beams"] = 1;
  write_file_atomically(folder / "generation_config.json", to_text(generation) + "\n");
}

constexpr ModuleRule marian_modules[] = {
    {"embedding", "model.shared"},
    {"encoder.embedding", "model.encoder.embed_tokens"},
    {"decoder.embedding", "model.decoder.embed_tokens"},
    {"output", "lm_head"},
    {"encoder.*.attention.qkv", "model.encoder.layers.*.self_attn.q_proj", StreamAxis::columns, 0, 3},
    {"encoder.*.attention.qkv", "model.encoder.layers.*.self_attn.k_proj", StreamAxis::columns, 1, 3},
    {"encoder.*.attention.qkv", "model.encoder.layers.*.self_attn.v_proj", StreamAxis::columns, 2, 3},
    {"encoder.*.attention.output", "model.encoder.layers.*.self_attn.out_proj", StreamAxis::rows},
    {"encoder.*.attention_norm", "model.encoder.layers.*.self_attn_layer_norm", StreamAxis::rows},
    {"encoder.*.feed_forward.first", "model.encoder.layers.*.fc1"},
    {"encoder.*.feed_forward.second", "model.encoder.layers.*.fc2", StreamAxis::rows},
    {"encoder.*.feed_forward_norm", "model.encoder.layers.*.final_layer_norm", StreamAxis::rows},
    {"decoder.*.self.qkv", "model.decoder.layers.*.self_attn.q_proj", StreamAxis::columns, 0, 3},
    {"decoder.*.self.qkv", "model.decoder.layers.*.self_attn.k_proj", StreamAxis::columns, 1, 3},
    {"decoder.*.self.qkv", "model.decoder.layers.*.self_attn.v_proj", StreamAxis::columns, 2, 3},
    {"decoder.*.self.output", "model.decoder.layers.*.self_attn.out_proj", StreamAxis::rows},
    {"decoder.*.self_norm", "model.decoder.layers.*.self_attn_layer_norm", StreamAxis::rows},
    {"decoder.*.cross.query", "model.decoder.layers.*.encoder_attn.q_proj"},
    {"decoder.*.cross.key_value", "model.decoder.layers.*.encoder_attn.k_proj", StreamAxis::columns, 0, 2},
    {"decoder.*.cross.key_value", "model.decoder.layers.*.encoder_attn.v_proj", StreamAxis::columns, 1, 2},
    {"decoder.*.cross.output", "model.decoder.layers.*.encoder_attn.out_proj", StreamAxis::rows},
    {"decoder.*.cross_norm", "model.decoder.layers.*.encoder_attn_layer_norm", StreamAxis::rows},
    {"decoder.*.feed_forward.first", "model.decoder.layers.*.fc1"},
    {"decoder.*.feed_forward.second", "model.decoder.layers.*.fc2", StreamAxis::rows},
    {"decoder.*.feed_forward_norm", "model.decoder.layers.*.final_layer_norm", StreamAxis::rows},
};

constexpr FormatNames marian_names = {
    .separator = ".", .norm_gain = "weight", .norm_bias = "bias", .modules = marian_modules};

/// Feature `theirs` of the residual stream is this one of ours: their positions have all sines before all cosines, ours
/// alternate.
std::int64_t our_feature(std::int64_t theirs, std::int64_t width) {
  return theirs < width / 2 ? 2 * theirs : 2 * (theirs - width / 2) + 1;
}

/// `tensor` with the features of the residual stream in their order.
std::vector<float> reordered(const ConstTensor& tensor, StreamAxis stream) {
  const auto* values = tensor.as<float>();
  std::vector<float> result(static_cast<std::size_t>(tensor.shape.elements()));
  const bool is_matrix = tensor.shape.rank() == 2;
  const std::int64_t columns = is_matrix ? tensor.columns() : 1, rows = tensor.shape[0];
  const bool by_rows = stream == StreamAxis::rows, by_columns = !by_rows && is_matrix;  // a bias of q or fc1: neither
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t from = (by_rows ? our_feature(row, rows) : row) * columns;
    for (std::int64_t column = 0; column < columns; ++column) {
      result[static_cast<std::size_t>(row * columns + column)] =
          values[from + (by_columns ? our_feature(column, columns) : column)];
    }
  }
  return result;
}

struct StoredTensor {
  Shape shape;
  std::function<std::vector<float>()> values;
};

void write_safetensors_model(const ExportedModel& model, const std::filesystem::path& file) {
  const std::int64_t pieces = model.vocabulary.size();
  const std::vector<ForeignTensor> tensors = foreign_tensors(model.weights, marian_names);
  std::map<std::string, StoredTensor> stored;
  for (const ForeignTensor& foreign : tensors) {
    const Shape& shape = foreign.tensor.shape;
    const bool is_linear = foreign.ours.ends_with(".weight"), is_table = shape.rank() == 2 && !is_linear;
    const auto values = [&foreign, is_table] {
      std::vector<float> result = reordered(foreign.tensor, foreign.rule->stream);
      if (is_table) result.resize(result.size() + static_cast<std::size_t>(foreign.tensor.columns()));  // <pad>
      return result;
    };
    stored[foreign.name] = {is_table ? Shape{pieces + 1, shape[1]} : shape, values};
    if (!is_linear) continue;
    // A Linear without a bias has one of zeros, unless its own replaces it.
    const std::string bias = foreign.name.substr(0, foreign.name.rfind('.')) + ".bias";
    stored.try_emplace(
        bias, StoredTensor{{shape[0]}, [shape] { return std::vector<float>(static_cast<std::size_t>(shape[0])); }});
  }
  stored["final_logits_bias"] = {{1, pieces + 1}, [pieces] {
                                   std::vector<float> bias(static_cast<std::size_t>(pieces + 1));
                                   bias.back() = never_chosen;
                                   return bias;
                                 }};
  std::vector<SafetensorsWriter::Layout> layout;
  for (const auto& [name, tensor] : stored)
    layout.push_back({.name = name, .shape = tensor.shape, .dtype = DType::f32});
  SafetensorsWriter writer(file, layout, {{"format", "pt"}});
  for (const auto& [name, tensor] : stored) {
    const std::vector<float> values = tensor.values();
    writer.add(ConstTensor(values.data(), tensor.shape, DType::f32));
  }
  writer.finish();
}

/// For MarianTokenizer of Python, which has a vocabulary in JSON beside two SentencePiece models.
void write_marian_tokenizer(const Vocabulary& vocabulary, const std::filesystem::path& folder) {
  json::object ids;
  for (std::int32_t id = 0; id < vocabulary.size(); ++id) ids[vocabulary.piece(id)] = id;
  ids[pad] = vocabulary.size();
  write_file_atomically(folder / "vocab.json", to_text(ids) + "\n");
  for (const char* side : {"source.spm", "target.spm"}) write_file_atomically(folder / side, vocabulary.bytes());
}

}  // namespace

std::string huggingface_omission(const ModelConfig& model) {
  constexpr double epsilon = 1e-5;  // of torch.nn.LayerNorm
  const bool is_pre = model.norm == NormPosition::pre;
  if (!is_pre && model.norm_epsilon == epsilon) return "";
  const std::string difference =
      is_pre ? "norms after the sub-layers, this model before them (model.norm: pre)"
             : fmt::format("{} for the variance, this model {} (model.norm_epsilon)", epsilon, model.norm_epsilon);
  return "Left out: model.safetensors, source.spm, target.spm and vocab.json, which transformers in Python reads. Its\n"
         "MarianMTModel has " +
         difference + ".";
}

void write_huggingface(const ExportedModel& model, const std::filesystem::path& folder) {
  const ModelConfig& config = model.config.model;
  std::filesystem::create_directory(folder / "onnx");
  write_tokenizer(model.vocabulary, folder);
  write_configs(config, model.vocabulary.size(), folder);
  write_onnx(model, folder / "onnx");
  sync_folder(folder / "onnx");
  if (!huggingface_omission(config).empty()) return;
  write_safetensors_model(model, folder / "model.safetensors");
  write_marian_tokenizer(model.vocabulary, folder);
}

}  // namespace babelring
