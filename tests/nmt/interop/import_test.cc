#include "nmt/interop/import.h"

#include <cstring>
#include <limits>

#include "base/failure.h"
#include "base/json.h"
#include "nmt/checkpoint/safetensors.h"
#include "nmt/checkpoint/store.h"
#include "tests/nmt/data/synthetic.h"
#include "tests/nmt/interop/export_fixture.h"

namespace babelring {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

class ImportTest : public ExportTest {
 protected:
  fs::path imported(const fs::path& folder) {
    const fs::path output = folder_.path() / ("imported-" + std::to_string(++imports_));
    import_checkpoint({.input = folder, .command = "nmt import"}, output);
    return output;
  }
  /// Imports a model.bin with other bytes.
  void import_changed(const fs::path& folder, const std::string& bytes) {
    write_file_atomically(folder / "model.bin", bytes);
    imported(folder);
  }

  int imports_ = 0;
};

std::string model_bin(const fs::path& folder) {
  return read_file(folder / "model.bin");
}

/// The bytes with another value for a number of one byte, whose name is followed by a zero, rank, type and length.
std::string with_number(std::string bytes, const std::string& name, char value) {
  const std::size_t at = bytes.find(name + '\0');
  EXPECT_NE(at, std::string::npos) << name;
  bytes[at + name.size() + 1 + 6] = value;
  return bytes;
}

template <class T>
std::string bytes_of(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

/// The bytes with a tensor [2] of f32 more.
std::string with_tensor(std::string bytes, const std::string& name) {
  constexpr std::size_t count_at = 26;  // behind versions and the name TransformerSpec
  std::uint32_t count = 0;
  std::memcpy(&count, bytes.data() + count_at, sizeof count);
  bytes.replace(count_at, sizeof count, bytes_of(count + 1));
  const std::string variable = bytes_of(static_cast<std::uint16_t>(name.size() + 1)) + name + '\0' + '\1' +
                               bytes_of(std::uint32_t{2}) + '\0' + bytes_of(std::uint32_t{8}) + std::string(8, '\0');
  return bytes.insert(count_at + sizeof count, variable);
}

TEST_F(ImportTest, RoundTripIsBitEqual) {
  for (const std::string options :
       {"", "  tied_embeddings: none\n  norm: post\n  attention_bias: true\n  activation: swish\n",
        "  tied_embeddings: decoder\n  activation: gelu\n  norm_epsilon: 1e-6\n",
        "  positions: marian\n  decoder_start: zero\n  output_bias: true\n"}) {
    fs::remove_all(folder_.path() / "checkpoint");
    const fs::path original = checkpoint(options), first = exported(original), back = imported(first);
    EXPECT_EQ(read_file(back / "weights.safetensors"), read_file(original / "weights.safetensors")) << options;
    EXPECT_EQ(read_file(back / "spm.model"), vocabulary_);
    EXPECT_EQ(model_bin(exported(back)), model_bin(first)) << options;
  }
}

TEST_F(ImportTest, BFloat16IsWidenedExactly) {
  const fs::path first = exported(checkpoint(""), Quantization::bfloat16);
  EXPECT_EQ(model_bin(exported(imported(first), Quantization::bfloat16)), model_bin(first));
}

TEST(ImportedTensor, HalvesAreWidenedExactly) {
  const std::vector<std::uint16_t> halves = {0x3c00, 0xc000, 0x0001, 0x83ff, 0x7bff, 0x0400, 0x8000, 0x3555};
  const ImportedTensor tensor = {
      .shape = {8}, .type = ImportedTensor::Type::f16, .bytes = std::as_bytes(std::span(halves))};
  EXPECT_THAT(tensor.values(),
              testing::ElementsAre(1.F, -2.F, 0x1p-24F, -1023 * 0x1p-24F, 65504.F, 0x1p-14F, -0.F, 0.333251953125F));
}

TEST_F(ImportTest, APackageForArgosIsReadFromItsFolder) {
  const fs::path package = folder_.path() / "package";
  fs::create_directories(package);
  fs::rename(exported(checkpoint("")), package / "model");
  fs::rename(package / "model" / "sentencepiece.model", package / "sentencepiece.model");
  EXPECT_TRUE(fs::exists(imported(package) / "weights.safetensors"));
}

TEST_F(ImportTest, TheModelOfTheTargetTravelsWithThatOfTheSource) {
  const Vocabulary whole = Vocabulary::from_bytes(vocabulary_, "whole");
  const auto is_short = [&](std::int32_t id) { return id < first_free_id || whole.piece(id).size() < 4; };
  const VocabularyModels models = {.source = with_some_pieces(vocabulary_, is_short), .target = vocabulary_};
  vocabulary_ = join_models(models);
  const std::string options = "  norm: post\n  norm_epsilon: 1e-6\n  positions: marian\n  decoder_start: zero\n";
  const fs::path original = checkpoint(options), folder = exported(original);
  EXPECT_EQ(read_file(folder / "sentencepiece.model"), models.source);
  EXPECT_EQ(read_file(folder / "target.spm"), models.target);
  EXPECT_THAT(read_file(folder / "README.md"), HasSubstr("`target.spm`, makes text"));
  EXPECT_EQ(read_file(imported(folder) / "spm.model"), vocabulary_);
  const fs::path marian = ExportTest::exported(original, Quantization::float32, ExportFormat::marian);
  EXPECT_THAT(read_file(marian / "decoder.yml"), HasSubstr("vocabs:\n  - source.spm\n  - target.spm\n"));
  EXPECT_EQ(read_file(marian / "source.spm"), models.source);
  EXPECT_EQ(read_file(marian / "target.spm"), models.target);
}

TEST_F(ImportTest, RefusesAFileThatEndsTooEarly) {
  const fs::path folder = exported(checkpoint(""));
  const std::string whole = model_bin(folder);
  const std::size_t step = 211;  // a prime, so that cuts fall into every kind of field
  for (std::size_t size = 0; size < whole.size(); size += size < 500 ? 1 : step) {
    EXPECT_THROW(import_changed(folder, whole.substr(0, size)), Failure) << size;
  }
  EXPECT_THAT([&] { import_changed(folder, whole + "x"); },
              ThrowsMessage<Failure>(HasSubstr("1 bytes too much at the end")));
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_.path())) {
    EXPECT_THAT(entry.path().filename().string(), testing::AnyOf("checkpoint", "1", "spm.model"));
  }
}

TEST_F(ImportTest, RefusesByNameWhatOursCannotCompute) {
  const fs::path folder = exported(checkpoint(""));
  const std::string whole = model_bin(folder);
  const auto refuses = [&](const std::string& bytes, const std::string& words) {
    EXPECT_THAT([&] { import_changed(folder, bytes); }, ThrowsMessage<Failure>(HasSubstr(words)));
  };
  refuses(with_number(whole, "decoder/start_from_zero_embedding", 2), "decoder/start_from_zero_embedding is 2");
  refuses(with_number(whole, "encoder/activation", 4), "encoder/activation is 4, expected 0 (ReLU)");
  refuses(with_number(whole, "decoder/activation", 2), "decoder/activation is 2, expected 0");
  refuses(with_number(whole, "encoder/scale_embeddings", 0), "encoder/scale_embeddings is 0, expected 1");
  refuses(with_number(whole, "decoder/pre_norm", 0), "decoder/pre_norm is 0");
  for (const char heads : {0, -1, 3}) {
    std::string other = with_number(whole, "encoder/num_heads", heads);
    other = with_number(other, "decoder/num_heads", heads);
    refuses(other, "model.heads");
  }
  refuses(with_tensor(whole, "decoder/layernorm_embedding/beta"),
          "decoder/layernorm_embedding/beta [2] has no place in our model");
  std::string other = whole;
  other.replace(other.find("decoder/layer_norm/beta"), 23, "decoder/layer_norm/betA");
  refuses(other, "decoder/layer_norm/beta is missing, expected [8]");
  other = whole;
  const std::size_t positions = other.find("decoder/position_encodings/encodings") + 37 + 1 + 8 + 1 + 4;
  other.replace(positions, sizeof(float), bytes_of(0.5F));
  refuses(other, "encodings[0, 0] is 0.5, expected 0: positions are not sines and cosines in turn");
  const fs::path quantized = exported(folder_.path() / "checkpoint", Quantization::int8);
  EXPECT_THAT([&] { imported(quantized); }, ThrowsMessage<Failure>(HasSubstr("is quantized to integers")));
}

TEST_F(ImportTest, RefusesAWeightThatIsNotFinite) {
  const fs::path folder = exported(checkpoint(""));
  std::string bytes = model_bin(folder);
  const std::string name = "decoder/layer_norm/beta";
  const std::size_t data =
      bytes.find(name + '\0') + name.size() + 1 + 1 + 4 + 1 + 4;  // behind rank, extent, type, bytes
  bytes.replace(data + 2 * sizeof(float), sizeof(float), bytes_of(std::numeric_limits<float>::quiet_NaN()));
  EXPECT_THAT([&] { import_changed(folder, bytes); }, ThrowsMessage<Failure>(HasSubstr("decoder.norm.bias[2] is nan")));
}

TEST_F(ImportTest, RefusesOtherTokensAndPieces) {
  const fs::path folder = exported(checkpoint(""));
  const auto replace = [&](const char* file, const std::string& from, const std::string& to) {
    std::string text = read_file(folder / file);
    text.replace(text.find(from), from.size(), to);
    write_file_atomically(folder / file, text);
  };
  replace("shared_vocabulary.json", "\"</s>\"", "\"</t>\"");
  EXPECT_THAT([&] { imported(folder); }, ThrowsMessage<Failure>(HasSubstr("piece 2 is \"</t>\"")));
  replace("shared_vocabulary.json", "\"</t>\"", "\"</s>\"");
  replace("config.json", "\"decoder_start_token\":\"<s>\"", "\"decoder_start_token\":\"<pad>\"");
  EXPECT_THAT([&] { imported(folder); },
              ThrowsMessage<Failure>(HasSubstr("decoder_start_token is \"<pad>\", expected \"<s>\"")));
  fs::remove(folder / "sentencepiece.model");
  replace("config.json", "\"<pad>\"", "\"<s>\"");
  EXPECT_THAT([&] { imported(folder); }, ThrowsMessage<UsageFailure>(HasSubstr("expected --vocabulary FILE")));
}

class MarianImportTest : public ImportTest {
 protected:
  fs::path exported(const fs::path& checkpoint) {
    return ExportTest::exported(checkpoint, Quantization::float32, ExportFormat::huggingface);
  }
  /// Replaces a member of config.json or vocab.json.
  static void set(const fs::path& folder, const std::string& name, const json::value& value,
                  const char* file = "config.json") {
    json::object members = parse_json(read_file(folder / file)).value().as_object();
    members[name] = value;
    write_file_atomically(folder / file, to_text(members));
  }
  struct Tensor {
    Shape shape;
    std::vector<float> values;
  };
  static std::map<std::string, Tensor> tensors(const fs::path& folder) {
    const SafetensorsReader reader(folder / "model.safetensors");
    std::map<std::string, Tensor> all;
    for (const SafetensorsEntry& entry : reader.entries()) {
      const ConstTensor tensor = reader.tensor(entry.name);
      const auto* values = tensor.as<float>();
      all[entry.name] = {tensor.shape, {values, values + tensor.shape.elements()}};
    }
    return all;
  }
  static void write(const fs::path& folder, const std::map<std::string, Tensor>& all) {
    std::vector<SafetensorsWriter::Layout> layout;
    for (const auto& [name, tensor] : all) {
      layout.push_back({.name = name, .shape = tensor.shape, .dtype = DType::f32});
    }
    SafetensorsWriter writer(folder / "model.safetensors", layout, {{"format", "pt"}});
    for (const auto& [name, tensor] : all) writer.add(ConstTensor(tensor.values.data(), tensor.shape, DType::f32));
    writer.finish();
  }
  void refuses(const fs::path& folder, const std::string& words) {
    EXPECT_THAT([&] { imported(folder); }, ThrowsMessage<Failure>(HasSubstr(words)));
  }
};

TEST_F(MarianImportTest, RoundTripIsBitEqual) {
  for (const std::string options :
       {"", "  tied_embeddings: none\n  attention_bias: true\n  activation: swish\n",
        "  tied_embeddings: decoder\n  activation: gelu\n", "  decoder_start: zero\n  output_bias: true\n"}) {
    fs::remove_all(folder_.path() / "checkpoint");
    const fs::path original = checkpoint("  norm: post\n" + options), first = exported(original);
    const fs::path back = imported(first);
    EXPECT_EQ(read_file(back / "weights.safetensors"), read_file(original / "weights.safetensors")) << options;
    EXPECT_EQ(read_file(back / "spm.model"), vocabulary_);
    const fs::path second = exported(back);
    for (const char* file : {"model.safetensors", "vocab.json", "source.spm", "config.json", "tokenizer.json"}) {
      EXPECT_EQ(read_file(second / file), read_file(first / file)) << file << " " << options;
    }
  }
}

/// Changes an exported folder to what published models have: </s> is 0, <unk> 1, no <s>, other ids than
/// SentencePiece's, a code of a language with the row of piece 5, and the source's own model, which has only short
/// pieces.
class PublishedModelTest : public MarianImportTest {
 protected:
  static constexpr std::int32_t language_row = 5;

  fs::path published() {
    const fs::path folder = exported(checkpoint("  norm: post\n  decoder_start: zero\n  output_bias: true\n"));
    std::vector<std::int64_t> rows = {eos_id, unk_id};  // of the exported file, by row of the new one
    for (std::int32_t id = before_.size() - 1; id >= first_free_id; --id) rows.push_back(id);
    json::object ids;
    for (std::size_t id = 0; id < rows.size(); ++id) ids[before_.piece(static_cast<std::int32_t>(rows[id]))] = id;
    ids[">>fra<<"] = rows.size();
    rows.push_back(language_row);
    ids["<pad>"] = rows.size();
    rows.push_back(before_.size());
    write_file_atomically(folder / "vocab.json", to_text(ids));
    for (const char* name : {"vocab_size", "decoder_vocab_size"}) set(folder, name, rows.size());
    for (const char* name : {"pad_token_id", "decoder_start_token_id"}) set(folder, name, rows.size() - 1);
    set(folder, "eos_token_id", 0);
    write_file_atomically(folder / "source.spm", short_pieces_);
    move_rows(folder, rows);
    return folder;
  }

  const Vocabulary before_ = Vocabulary::from_bytes(vocabulary_, "before");
  const std::string short_pieces_ = with_some_pieces(
      vocabulary_, [&](std::int32_t id) { return id < first_free_id || before_.piece(id).size() < 4; });

 private:
  static void move_rows(const fs::path& folder, const std::vector<std::int64_t>& rows) {
    std::map<std::string, Tensor> all = tensors(folder);
    for (const auto& [name, columns] : {std::pair("model.shared.weight", 8), {"final_logits_bias", 1}}) {
      std::vector<float> values;
      for (const std::int64_t row : rows) {
        const auto begin = all.at(name).values.begin() + row * columns;
        values.insert(values.end(), begin, begin + columns);
      }
      const auto count = std::ssize(rows);
      all[name] = {columns == 1 ? Shape{1, count} : Shape{count, columns}, values};
    }
    write(folder, all);
  }
};

TEST_F(PublishedModelTest, EachSideIsCutByItsModel) {
  const Vocabulary vocabulary = Vocabulary::load(imported(published()) / "spm.model");
  const Vocabulary source_model = Vocabulary::from_bytes(short_pieces_, "source");
  ASSERT_EQ(vocabulary.size(), before_.size() + 1);
  const auto pieces_of = [](const Vocabulary& from, const std::vector<std::int32_t>& ids) {
    std::vector<std::string> pieces;
    for (const std::int32_t id : ids) pieces.push_back(from.piece(id));
    return pieces;
  };
  for (const std::string& line : lines) {
    EXPECT_EQ(pieces_of(vocabulary, vocabulary.encode(line, TextSide::target)),
              pieces_of(before_, before_.encode(line)));
    std::vector<std::string> expected = pieces_of(source_model, source_model.encode(line));
    expected.insert(expected.begin(), "\u2581>>fra<<");
    EXPECT_EQ(pieces_of(vocabulary, vocabulary.encode(">>fra<< " + line)), expected);
  }
}

TEST_F(PublishedModelTest, RowsGoByPiece) {
  const fs::path back = imported(published());
  const Vocabulary vocabulary = Vocabulary::load(back / "spm.model");
  const SafetensorsReader weights(back / "weights.safetensors");
  const auto *table = weights.tensor("embedding").as<float>(), *bias = weights.tensor("output.bias").as<float>();
  const std::vector<float> old_table = ours("embedding"), old_bias = ours("output.bias");
  EXPECT_EQ(bias[bos_id], -50) << "<s>, which the model does not have";
  for (std::int32_t id = 0; id < vocabulary.size(); ++id) {
    if (id == bos_id) continue;
    std::int32_t old = 0;
    while (old < before_.size() && before_.piece(old) != vocabulary.piece(id)) ++old;
    if (old == before_.size()) old = language_row;
    EXPECT_EQ(bias[id], old_bias[static_cast<std::size_t>(old)]) << id;
    for (int i = 0; i < 8; ++i) EXPECT_EQ(table[id * 8 + i], old_table[static_cast<std::size_t>(old * 8 + i)]) << id;
  }
}

TEST_F(PublishedModelTest, IsExportedAndImportedAgainWithTheSameBytes) {
  const fs::path back = imported(published()), again = imported(exported(back));
  EXPECT_EQ(read_file(again / "spm.model"), read_file(back / "spm.model"));
  EXPECT_EQ(read_file(again / "weights.safetensors"), read_file(back / "weights.safetensors"));
}

TEST_F(MarianImportTest, AHeadThatDiffersFromItsTableIsIgnored) {
  const fs::path original = checkpoint("  norm: post\n"), folder = exported(original);
  std::map<std::string, Tensor> all = tensors(folder);
  all["lm_head.weight"] = all.at("model.shared.weight");
  all["lm_head.weight"].values[9] += 1;
  all["model.encoder.embed_tokens.weight"] = all.at("model.shared.weight");
  all["model.encoder.embed_positions.weight"] = {Shape{4, 8}, std::vector<float>(32)};
  write(folder, all);
  EXPECT_EQ(read_file(imported(folder) / "weights.safetensors"), read_file(original / "weights.safetensors"));
  all["model.encoder.embed_tokens.weight"].values[9] += 1;
  write(folder, all);
  refuses(folder, "model.encoder.embed_tokens.weight differs from model.shared.weight");
}

TEST_F(MarianImportTest, RefusesByNameWhatOursCannotCompute) {
  const fs::path folder = exported(checkpoint("  norm: post\n"));
  const auto refuses_value = [&](const std::string& name, const json::value& value, const std::string& words) {
    const json::value before = parse_json(read_file(folder / "config.json")).value().at(name);
    set(folder, name, value);
    refuses(folder, words);
    set(folder, name, before);
  };
  refuses_value("scale_embedding", false, "scale_embedding is false, expected true: ours has no such option");
  refuses_value("model_type", "bart", R"(model_type is "bart", expected "marian")");
  refuses_value("static_position_embeddings", false, "static_position_embeddings is false");
  refuses_value("activation_function", "gelu_new", R"(activation_function is "gelu_new", expected relu, swish)");
  refuses_value("encoder_attention_heads", 4, "encoder_attention_heads is 4, decoder_attention_heads is 2");
  refuses_value("d_model", "8", R"(d_model is "8", expected an integer of at most 32 bits)");
  refuses_value("decoder_start_token_id", 7, "decoder_start_token_id is 7, expected that of <pad> or <s>");
  refuses_value("vocab_size", 34, "vocab_size is 34, expected 35");
  refuses_value("encoder_layers", 3, "model.encoder.layers.2.self_attn_layer_norm.weight is missing, expected [8]");
  refuses_value("encoder_layers", 1, "has no place in our model");
  refuses_value("encoder_layers", 0, "model.encoder_layers");
  refuses_value("decoder_layers", -1, "model.decoder_layers");
  refuses_value("encoder_layers", (std::int64_t{1} << 32) + 2, "encoder_layers is 4294967298, expected an integer");
  refuses_value("activation_function", nullptr, "activation_function is null, expected relu");
  refuses_value("tie_word_embeddings", false, "share_encoder_decoder_embeddings is true, expected false");
  set(folder, "decoder_vocab_size", nullptr);  // means that of vocab_size
  imported(folder);
  set(folder, "the", 3, "vocab.json");
  refuses(folder, "has the id 3, expected each of 0 to 35 once");
}

TEST_F(MarianImportTest, RefusesAPickleAndFilesThatAreMissingOrCut) {
  const fs::path folder = exported(checkpoint("  norm: post\n"));
  const std::string whole = read_file(folder / "model.safetensors");
  for (const std::size_t size : {std::size_t{0}, std::size_t{7}, std::size_t{100}, whole.size() - 1}) {
    write_file_atomically(folder / "model.safetensors", whole.substr(0, size));
    EXPECT_THROW(imported(folder), Failure) << size;
  }
  for (const char* file : {"vocab.json", "source.spm", "target.spm", "config.json"}) {
    fs::rename(folder / file, folder / "away");
    refuses(folder, file);
    write_file_atomically(folder / file, "text");
    refuses(folder, file);
    fs::rename(folder / "away", folder / file);
  }
  fs::rename(folder / "model.safetensors", folder / "pytorch_model.bin");
  EXPECT_THAT([&] { imported(folder); },
              ThrowsMessage<UsageFailure>(HasSubstr("a pickle, expected model.safetensors")));
}

}  // namespace
}  // namespace babelring
