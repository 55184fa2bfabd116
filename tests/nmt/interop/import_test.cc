#include "nmt/interop/import.h"

#include <cstring>
#include <limits>

#include "base/failure.h"
#include "nmt/checkpoint/store.h"
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

}  // namespace
}  // namespace babelring
