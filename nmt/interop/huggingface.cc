// The format: MarianMT of transformers, models/marian/modeling_marian.py and configuration_marian.py.
#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <functional>
#include <map>

#include "base/failure.h"
#include "base/files.h"
#include "base/json.h"
#include "nmt/checkpoint/safetensors.h"
#include "nmt/interop/export.h"

namespace babelring {
namespace {

constexpr int longest_translation = 512;  // tokens; that of published MarianMT models

/// Control ids; both configuration files have them, as the older versions read one and the newer the other. The vector
/// of <pad> is zeros. A translation that is cut has no </s>; without the member MarianConfig would force id 0.
json::object control_ids(const ModelConfig& model, std::int32_t pad_id) {
  return {{"pad_token_id", pad_id},
          {"bos_token_id", bos_id},
          {"eos_token_id", eos_id},
          {"decoder_start_token_id", model.decoder_start == DecoderStart::zero ? pad_id : bos_id},
          {"forced_eos_token_id", nullptr}};
}

void write_configs(const ModelConfig& model, std::int32_t pad_id, const std::filesystem::path& folder) {
  json::object config = control_ids(model, pad_id);
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
  json::object generation = control_ids(model, pad_id);
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

struct StoredTensor {
  Shape shape;
  std::function<std::vector<float>()> values;
};

void write_safetensors_model(const ExportedModel& model, const std::filesystem::path& file) {
  const std::int64_t pieces = model.vocabulary.size();
  const std::vector<ForeignTensor> tensors = foreign_tensors(model.weights, marian_names);
  std::map<std::string, StoredTensor> stored;
  for (const ForeignTensor& foreign : tensors) {
    if (foreign.ours == "output.bias") continue;  // final_logits_bias
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
  stored["final_logits_bias"] = {{1, pieces + 1}, [&] { return padded_output_bias(model); }};
  std::vector<SafetensorsWriter::Layout> layout;
  layout.reserve(stored.size());
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
  const VocabularyModels models = split_models(vocabulary.bytes());
  json::object ids;
  constexpr std::string_view space = "\u2581";
  for (std::int32_t id = 0; id < vocabulary.size(); ++id) {
    std::string_view piece = vocabulary.piece(id);
    const bool is_language = piece.starts_with("\u2581>>") && piece.ends_with("<<");
    if (is_language) piece.remove_prefix(space.size());  // MarianTokenizer cuts it off the text
    ids[piece] = id;
  }
  ids[pad_piece] = vocabulary.size();
  write_file_atomically(folder / "vocab.json", to_text(ids) + "\n");
  write_file_atomically(folder / "source.spm", models.source);
  write_file_atomically(folder / "target.spm", models.target.empty() ? models.source : models.target);
}

}  // namespace

const FormatNames marian_names = {
    .separator = ".", .norm_gain = "weight", .norm_bias = "bias", .modules = marian_modules};

std::string huggingface_omission(const ModelConfig& model) {
  constexpr double epsilon = 1e-5;  // of torch.nn.LayerNorm
  std::string difference;
  if (model.norm == NormPosition::pre) {
    difference = "norms after the sub-layers, this model before them (model.norm: pre)";
  } else if (model.norm_epsilon != epsilon) {
    difference = fmt::format("{} for the variance, this model {} (model.norm_epsilon)", epsilon, model.norm_epsilon);
  } else if (model.positions != Positions::sinusoid) {
    difference = "positions of Vaswani et al. 2017, this model those of Marian (model.positions: marian)";
  } else {
    return "";
  }
  return "Left out: model.safetensors, source.spm, target.spm and vocab.json, which transformers in Python reads. Its\n"
         "MarianMTModel has " +
         difference + ".";
}

std::vector<float> padded_output_bias(const ExportedModel& model) {
  std::vector<float> bias(static_cast<std::size_t>(model.vocabulary.size()));
  if (model.config.model.output_bias) {
    const auto* values = model.weights.tensor("output.bias").as<float>();
    std::copy_n(values, bias.size(), bias.begin());
  }
  bias.push_back(never_chosen);
  return bias;
}

void write_huggingface(const ExportedModel& model, const std::filesystem::path& folder) {
  const ModelConfig& config = model.config.model;
  std::filesystem::create_directory(folder / "onnx");
  write_tokenizer_json(model.vocabulary, folder);
  write_configs(config, model.vocabulary.size(), folder);
  write_onnx(model, folder / "onnx");
  sync_folder(folder / "onnx");
  if (!huggingface_omission(config).empty()) return;
  write_safetensors_model(model, folder / "model.safetensors");
  write_marian_tokenizer(model.vocabulary, folder);
}

}  // namespace babelring
