// The format: MarianMT of transformers, models/marian/modeling_marian.py, configuration_marian.py and
// tokenization_marian.py.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "base/failure.h"
#include "base/files.h"
#include "base/json.h"
#include "base/log.h"
#include "base/protobuf.h"
#include "nmt/checkpoint/safetensors.h"
#include "nmt/interop/import.h"
#include "nmt/interop/marian.h"

namespace babelring {
namespace {

namespace fs = std::filesystem;

json::object read_object(const fs::path& file) {
  const Result<json::value> parsed = parse_json(read_file(file));
  if (!parsed.ok()) fail("{}: {}", file.string(), parsed.error());
  if (!parsed->is_object()) fail("{}: expected an object", file.string());
  return parsed->get_object();
}

/// config.json. Members that are absent have the values of MarianConfig.
class MarianConfig {
 public:
  explicit MarianConfig(const fs::path& file) : file_(file.string()), members_(read_object(file)) {}

  void require(const char* name, const json::value& expected, const json::value& absent) const {
    const json::value value = get(name, absent);
    if (value == expected || (value.is_null() && absent == expected)) return;
    fail("{}: {} is {}, expected {}: ours has no such option", file_, name, printable(to_text(value)),
         to_text(expected));
  }
  int integer(const char* name) const {
    const json::value* found = members_.if_contains(name);
    const bool is_integer = found != nullptr && found->is_int64() && std::in_range<int>(found->get_int64());
    if (is_integer) return static_cast<int>(found->get_int64());
    fail("{}: {} is {}, expected an integer of at most 32 bits", file_, name,
         found == nullptr ? "missing" : printable(to_text(*found)));
  }
  bool flag(const char* name, bool absent) const {
    const json::value value = get(name, absent);
    if (!value.is_bool()) fail("{}: {} is {}, expected true or false", file_, name, printable(to_text(value)));
    return value.get_bool();
  }
  int integer_of_both_sides(const char* rest) const {
    const std::string encoder = fmt::format("encoder_{}", rest), decoder = fmt::format("decoder_{}", rest);
    const int value = integer(encoder.c_str());
    if (value == integer(decoder.c_str())) return value;
    fail("{}: {} is {}, {} is {}: ours has the same for both", file_, encoder, value, decoder,
         integer(decoder.c_str()));
  }
  Activation activation() const {
    const json::value word = get("activation_function", "gelu");
    const std::map<std::string_view, Activation> known = {{"relu", Activation::relu},
                                                          {"swish", Activation::swish},
                                                          {"silu", Activation::swish},
                                                          {"gelu", Activation::gelu}};
    const auto found = word.is_string() ? known.find(std::string_view(word.get_string())) : known.end();
    if (found != known.end()) return found->second;
    fail("{}: activation_function is {}, expected relu, swish, silu or gelu", file_, printable(to_text(word)));
  }
  const std::string& file() const { return file_; }

 private:
  json::value get(const char* name, const json::value& absent) const {
    const json::value* found = members_.if_contains(name);
    return found == nullptr ? absent : *found;
  }

  std::string file_;
  json::object members_;
};

ModelConfig model_of(const MarianConfig& config, Positions positions) {
  config.require("model_type", "marian", "");
  config.require("scale_embedding", true, false);
  config.require("static_position_embeddings", true, true);
  for (const char* absent : {"normalize_before", "normalize_embedding", "add_final_layer_norm", "add_bias_logits"}) {
    config.require(absent, false, false);
  }
  ModelConfig model;
  model.encoder_layers = config.integer("encoder_layers");
  model.decoder_layers = config.integer("decoder_layers");
  model.width = config.integer("d_model");
  model.heads = config.integer_of_both_sides("attention_heads");
  model.inner = config.integer_of_both_sides("ffn_dim");
  model.activation = config.activation();
  model.norm = NormPosition::post;
  model.positions = positions;
  const bool shared = config.flag("share_encoder_decoder_embeddings", true);
  if (!config.flag("tie_word_embeddings", true)) {
    config.require("share_encoder_decoder_embeddings", false, true);
    model.tied_embeddings = TiedEmbeddings::none;
  } else {
    model.tied_embeddings = shared ? TiedEmbeddings::all : TiedEmbeddings::decoder;
  }
  return model;
}

/// vocab.json: pieces by id.
std::vector<std::string> read_pieces(const fs::path& file) {
  const json::object ids = read_object(file);
  std::vector<std::string> pieces(ids.size());
  for (const auto& [piece, value] : ids) {
    const std::int64_t id = value.is_int64() ? value.get_int64() : -1;
    if (id < 0 || id >= std::ssize(pieces) || !pieces[static_cast<std::size_t>(id)].empty()) {
      fail("{}: {} has the id {}, expected each of 0 to {} once", file.string(), printable(std::string(piece)),
           printable(to_text(value)), pieces.size() - 1);
    }
    pieces[static_cast<std::size_t>(id)] = std::string(piece);
  }
  return pieces;
}

/// The rows of their tables in the order of our ids: <unk>, <s>, </s>, then all others but <pad>.
std::vector<std::int64_t> rows_of(const std::vector<std::string>& pieces, const MarianConfig& config,
                                  const fs::path& file) {
  const auto id_of = [&](std::string_view piece) {
    const auto found = std::find(pieces.begin(), pieces.end(), piece);
    return found == pieces.end() ? -1 : found - pieces.begin();
  };
  const std::int64_t unknown = id_of("<unk>"), begin = id_of("<s>"), end = id_of("</s>"), pad = id_of(pad_piece);
  for (const auto& [piece, id] : {std::pair("<unk>", unknown), {"</s>", end}, {"<pad>", pad}}) {
    if (id < 0) fail("{}: {} is missing", file.string(), piece);
  }
  config.require("eos_token_id", end, 0);
  config.require("pad_token_id", pad, 58100);
  std::vector<std::int64_t> rows = {unknown, begin, end};
  for (std::int64_t id = 0; id < std::ssize(pieces); ++id) {
    if (id != unknown && id != begin && id != end && id != pad) rows.push_back(id);
  }
  return rows;
}

std::string vocabulary_of(const fs::path& folder, const std::vector<std::string>& pieces,
                          const std::vector<std::int64_t>& rows) {
  std::vector<std::string> table;
  table.reserve(rows.size());
  for (const std::int64_t row : rows) table.push_back(row < 0 ? "<s>" : pieces[static_cast<std::size_t>(row)]);
  const std::string source = read_file(folder / "source.spm"), target = read_file(folder / "target.spm");
  const auto model_of_table = [&](const char* name, const std::string& model) {
    std::string with_all;
    try {
      with_all = with_pieces_of_table(model, table, rows);
    } catch (const Failure& failure) {
      fail("{}: {}", (folder / name).string(), failure.what());
    }
    Vocabulary::from_bytes(with_all, (folder / name).string());
    return with_all;
  };
  std::string of_source = model_of_table("source.spm", source);
  if (source == target) return of_source;
  return join_models({.source = of_source, .target = model_of_table("target.spm", target)});
}

std::map<std::string, ImportedTensor> tensors_of(const SafetensorsReader& file) {
  std::map<std::string, ImportedTensor> tensors;
  for (const SafetensorsEntry& entry : file.entries()) {
    using Floats = ImportedTensor::Type;
    const std::map<std::string, Floats> types = {{"F32", Floats::f32}, {"F16", Floats::f16}, {"BF16", Floats::bf16}};
    const auto type = types.find(entry.dtype);
    if (type == types.end()) {
      fail("{}: {} is {}, expected F32, F16 or BF16", file.file().string(), printable(entry.name), entry.dtype);
    }
    tensors[entry.name] = {.shape = entry.shape, .type = type->second, .bytes = file.bytes(entry)};
  }
  return tensors;
}

bool all_zero(const ImportedTensor& tensor) {
  return std::ranges::all_of(tensor.bytes, [](std::byte byte) { return byte == std::byte{0}; });
}

/// Removes the biases of attention if all are zeros. Returns whether they are there.
bool take_attention_bias(std::map<std::string, ImportedTensor>& tensors) {
  std::vector<std::string> biases;
  for (const auto& [name, tensor] : tensors) {
    if (!name.ends_with("_proj.bias")) continue;
    if (!all_zero(tensor)) return true;
    biases.push_back(name);
  }
  for (const std::string& name : biases) tensors.erase(name);
  return false;
}

/// final_logits_bias [1, pieces] as the bias of lm_head; removed if it is zeros and needed for no piece of ours.
bool take_output_bias(ImportedModel& imported, const std::string& file) {
  const auto found = imported.tensors.find("final_logits_bias");
  if (found == imported.tensors.end()) return false;
  ImportedTensor bias = found->second;
  imported.tensors.erase(found);
  if (bias.shape != std::vector<std::int64_t>{1, imported.their_rows}) {
    fail("{}: final_logits_bias is [{}], expected [1, {}]", file, fmt::join(bias.shape, ", "), imported.their_rows);
  }
  bias.shape = {imported.their_rows};
  const std::vector<float> values = bias.values();
  const bool is_needed = std::ranges::any_of(
      imported.rows, [&](std::int64_t row) { return row < 0 || values[static_cast<std::size_t>(row)] != 0; });
  if (is_needed) imported.tensors["lm_head.bias"] = bias;
  return is_needed;
}

/// Removes what transformers computes again or ignores.
void drop_copies(ImportedModel& imported, const std::string& file) {
  for (const char* side : {"encoder", "decoder"}) {
    imported.tensors.erase(fmt::format("model.{}.embed_positions.weight", side));
  }
  if (imported.model.tied_embeddings == TiedEmbeddings::none) return;
  const bool shared = imported.model.tied_embeddings == TiedEmbeddings::all;
  const auto head = imported.tensors.find("lm_head.weight");
  const auto table = imported.tensors.find(shared ? "model.shared.weight" : "model.decoder.embed_tokens.weight");
  if (head == imported.tensors.end() || table == imported.tensors.end()) return;
  if (!std::ranges::equal(head->second.bytes, table->second.bytes)) {
    spdlog::warn("{}: lm_head.weight differs from {}, to which it is tied, and is ignored", file, table->first);
  }
  imported.tensors.erase(head);
}

/// The table has the names of both sides too where all are tied; they must be equal.
void join_shared_tables(ImportedModel& imported, const std::string& file) {
  if (imported.model.tied_embeddings != TiedEmbeddings::all) return;
  const auto shared = imported.tensors.find("model.shared.weight");
  for (const char* side : {"encoder", "decoder"}) {
    const auto copy = imported.tensors.find(fmt::format("model.{}.embed_tokens.weight", side));
    if (copy == imported.tensors.end() || shared == imported.tensors.end()) continue;
    if (!std::ranges::equal(copy->second.bytes, shared->second.bytes)) {
      fail("{}: {} differs from model.shared.weight, to which it is tied", file, copy->first);
    }
    imported.tensors.erase(copy);
  }
}

}  // namespace

std::string with_pieces_of_table(std::string_view model, const std::vector<std::string>& table,
                                 const std::vector<std::int64_t>& rows) {
  constexpr int pieces_field = 1, text_field = 1, score_field = 2, type_field = 3;
  constexpr std::int64_t control = 3, user_defined = 4;
  std::map<std::string, std::string, std::less<>> messages;  // by piece
  std::vector<std::string> own;
  ProtobufMessage result;
  for (ProtobufReader fields(model); fields.next();) {
    if (fields.field() != pieces_field) {
      result.bytes(fields.field(), fields.bytes());
      continue;
    }
    for (ProtobufReader piece(fields.bytes()); piece.next();) {
      if (piece.field() != text_field) continue;
      messages[own.emplace_back(piece.bytes())] = fields.bytes();
    }
  }
  if (own == table) return std::string(model);
  for (std::size_t id = 0; id < table.size(); ++id) {
    const std::string& piece = table[id];
    if (const auto found = messages.find(piece); found != messages.end()) {
      result.bytes(pieces_field, found->second);
    } else if (piece.starts_with(">>") && piece.ends_with("<<")) {
      // With the space that SentencePiece puts before a text, as the tokenizer of transformers has no piece for it.
      const std::string symbol = "\u2581" + piece;
      const ProtobufMessage message =
          ProtobufMessage().bytes(text_field, symbol).number(score_field, 0).integer(type_field, user_defined);
      result.message(pieces_field, message);
    } else {
      const std::string name = static_cast<std::int32_t>(id) == bos_id ? piece
                               : rows[id] < 0                          ? fmt::format("{}{}>", absent_piece, id)
                                                                       : fmt::format("<{} of the other>", id);
      result.message(pieces_field,
                     ProtobufMessage().bytes(text_field, name).number(score_field, 0).integer(type_field, control));
    }
  }
  return result.text();
}

ImportedModel read_huggingface(const fs::path& folder, Positions positions) {
  const MarianConfig config(folder / "config.json");
  ImportedModel imported;
  imported.model = model_of(config, positions);
  const fs::path list = folder / "vocab.json";
  const std::vector<std::string> pieces = read_pieces(list);
  imported.rows = rows_of(pieces, config, list);
  imported.their_rows = std::ssize(pieces);
  config.require("vocab_size", imported.their_rows, 58101);
  config.require("decoder_vocab_size", imported.their_rows, imported.their_rows);
  const std::int64_t start = config.integer("decoder_start_token_id"), begin = imported.rows[bos_id];
  if (start == config.integer("pad_token_id")) {
    imported.model.decoder_start = DecoderStart::zero;
  } else if (start != begin || begin < 0) {
    fail("{}: decoder_start_token_id is {}, expected that of <pad> or <s>", config.file(), start);
  }
  imported.vocabulary = vocabulary_of(folder, pieces, imported.rows);
  const auto file = std::make_shared<SafetensorsReader>(folder / "model.safetensors");
  imported.file = file;
  imported.tensors = tensors_of(*file);
  imported.names = marian_names;
  imported.sines_first = true;
  const std::string name = file->file().string();
  drop_copies(imported, name);
  join_shared_tables(imported, name);
  imported.model.attention_bias = take_attention_bias(imported.tensors);
  imported.model.output_bias = take_output_bias(imported, name);
  return imported;
}

}  // namespace babelring
