#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "base/failure.h"
#include "base/files.h"
#include "base/json.h"
#include "nmt/interop/export.h"
#include "nmt/model/transformer.h"
#include "tests/nmt/interop/export_fixture.h"

namespace babelring {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// A variable as it is in model.bin.
struct Variable {
  std::vector<std::uint32_t> shape;
  int type = -1;
  std::string data;
};

/// Reads the whole of a model.bin, and requires that not a byte is left.
struct Reader {
  explicit Reader(const fs::path& file) : bytes(read_file(file)) {
    EXPECT_EQ(take<std::uint32_t>(), 6u);
    EXPECT_EQ(text(), "TransformerSpec");
    EXPECT_EQ(take<std::uint32_t>(), 7u);
    const auto count = take<std::uint32_t>();
    std::string before;
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::string name = text();
      EXPECT_LT(before, name) << "sorted, no name twice";
      before = name;
      Variable& variable = variables[name];
      variable.shape.resize(take<std::uint8_t>());
      for (std::uint32_t& extent : variable.shape) extent = take<std::uint32_t>();
      variable.type = take<std::uint8_t>();
      variable.data.resize(take<std::uint32_t>());
      copy(variable.data.data(), variable.data.size());
    }
    for (auto left = take<std::uint32_t>(); left > 0; --left) {
      const std::string alias = text();
      aliases[alias] = text();
      EXPECT_TRUE(variables.contains(aliases[alias])) << alias;
    }
    EXPECT_EQ(at, bytes.size());
  }
  void copy(char* target, std::size_t size) {
    ASSERT_LE(at + size, bytes.size());
    std::memcpy(target, bytes.data() + at, size);
    at += size;
  }
  template <class T>
  T take() {
    T value{};
    copy(reinterpret_cast<char*>(&value), sizeof value);
    return value;
  }
  std::string text() {
    std::string value(take<std::uint16_t>(), ' ');
    copy(value.data(), value.size());
    EXPECT_EQ(value.back(), '\0');
    value.pop_back();
    return value;
  }
  template <class T>
  std::vector<T> values(const std::string& name) const {
    const std::string& data = variables.at(name).data;
    std::vector<T> result(data.size() / sizeof(T));
    std::memcpy(result.data(), data.data(), data.size());
    return result;
  }

  std::string bytes;
  std::size_t at = 0;
  std::map<std::string, Variable> variables;
  std::map<std::string, std::string> aliases;
};

TEST_F(ExportTest, CTranslate2HasEachTensorOnceAndAliasesForTiedTables) {
  const Reader file(exported(checkpoint("")) / "model.bin");
  EXPECT_EQ(file.values<float>("decoder/embeddings/weight"), ours("embedding"));
  EXPECT_EQ(file.aliases.at("decoder/projection/weight"), "decoder/embeddings/weight");
  EXPECT_EQ(file.aliases.at("encoder/embeddings_0/weight"), "decoder/embeddings/weight");
  EXPECT_EQ(file.values<float>("encoder/layer_1/self_attention/linear_0/weight"),
            ours("encoder.1.attention.qkv.weight"));
  EXPECT_EQ(file.values<float>("encoder/layer_0/ffn/layer_norm/gamma"), ours("encoder.0.feed_forward_norm.gain"));
  EXPECT_EQ(file.values<float>("encoder/layer_0/ffn/layer_norm/beta"), ours("encoder.0.feed_forward_norm.bias"));
  EXPECT_EQ(file.values<float>("encoder/layer_0/ffn/linear_1/bias"), ours("encoder.0.feed_forward.second.bias"));
  EXPECT_EQ(file.values<float>("decoder/layer_0/attention/linear_1/weight"), ours("decoder.0.cross.key_value.weight"));
  EXPECT_EQ(file.values<float>("decoder/layer_norm/gamma"), ours("decoder.norm.gain"));
  EXPECT_THAT(file.variables.at("decoder/layer_0/attention/linear_1/weight").shape, ElementsAre(16, 8));
  EXPECT_EQ(file.values<std::int16_t>("encoder/num_heads").at(0), 2);
  EXPECT_EQ(file.values<std::int8_t>("decoder/pre_norm").at(0), 1);
  const std::vector<float> positions = file.values<float>("decoder/position_encodings/encodings");
  EXPECT_EQ(positions[0], 0);
  EXPECT_EQ(positions[1], 1);
  EXPECT_FLOAT_EQ(positions[8 + 2], std::sin(std::pow(10000.F, -2.F / 8)));
  // All of the model, and nothing else but the positions and ten numbers.
  EXPECT_EQ(file.variables.size(), model_->parameters().all().size() + 1 + 12);
}

TEST_F(ExportTest, CTranslate2HasThreeTablesWhereNoneAreTied) {
  const Reader file(exported(checkpoint("  tied_embeddings: none\n  norm: post\n  attention_bias: true\n")) /
                    "model.bin");
  EXPECT_EQ(file.values<float>("encoder/embeddings_0/weight"), ours("encoder.embedding"));
  EXPECT_EQ(file.values<float>("decoder/embeddings/weight"), ours("decoder.embedding"));
  EXPECT_EQ(file.values<float>("decoder/projection/weight"), ours("output"));
  EXPECT_EQ(file.values<float>("decoder/layer_0/attention/linear_0/bias"), ours("decoder.0.cross.query.bias"));
  EXPECT_EQ(file.values<std::int8_t>("encoder/pre_norm").at(0), 0);
  EXPECT_FALSE(file.variables.contains("encoder/layer_norm/gamma"));
}

TEST_F(ExportTest, CTranslate2HasTheActivationAndTheEpsilonOfNorms) {
  for (const auto& [word, number] : {std::pair("relu", 0), {"swish", 2}, {"gelu", 3}}) {
    fs::remove_all(folder_.path() / "checkpoint");
    const fs::path output = exported(checkpoint(fmt::format("  activation: {}\n  norm_epsilon: 1e-6\n", word)));
    const Reader file(output / "model.bin");
    EXPECT_EQ(file.values<std::int8_t>("encoder/activation").at(0), number);
    EXPECT_EQ(file.values<std::int8_t>("decoder/activation").at(0), number);
    EXPECT_EQ(parse_json(read_file(output / "config.json")).value().at("layer_norm_epsilon").as_double(), 1e-6);
  }
}

TEST_F(ExportTest, CTranslate2SharesTheTableOfTargetAndOutput) {
  const Reader file(exported(checkpoint("  tied_embeddings: decoder\n")) / "model.bin");
  EXPECT_EQ(file.aliases.at("decoder/projection/weight"), "decoder/embeddings/weight");
  EXPECT_EQ(file.values<float>("decoder/embeddings/weight"), ours("decoder.embedding"));
  EXPECT_EQ(file.values<float>("encoder/embeddings_0/weight"), ours("encoder.embedding"));
}

TEST_F(ExportTest, CTranslate2Int8IsWithinHalfAStepOfEachRow) {
  const fs::path path = checkpoint("");
  const Reader file(exported(path, Quantization::int8) / "model.bin");
  const std::vector<float> expected = ours("encoder.0.attention.qkv.weight");
  const auto scaled = file.values<std::int8_t>("encoder/layer_0/self_attention/linear_0/weight");
  const auto scales = file.values<float>("encoder/layer_0/self_attention/linear_0/weight_scale");
  ASSERT_EQ(scaled.size(), expected.size());
  ASSERT_EQ(scales.size(), 24u);
  for (std::size_t row = 0; row < scales.size(); ++row) {
    int largest = 0;
    for (std::size_t i = 8 * row; i < 8 * row + 8; ++i) {
      EXPECT_LE(std::abs(static_cast<float>(scaled[i]) / scales[row] - expected[i]), 0.5001F / scales[row]);
      largest = std::max(largest, std::abs(static_cast<int>(scaled[i])));
    }
    EXPECT_EQ(largest, 127);
  }
  EXPECT_EQ(file.variables.at("encoder/layer_0/ffn/linear_0/bias").type, 0) << "biases stay f32";
}

TEST_F(ExportTest, CTranslate2Bfloat16IsRounded) {
  const Reader file(exported(checkpoint(""), Quantization::bfloat16) / "model.bin");
  const std::vector<float> expected = ours("encoder.0.feed_forward.first.weight");
  const auto found = file.values<BFloat16>("encoder/layer_0/ffn/linear_0/weight");
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_EQ(found[i].bits, BFloat16(expected[i]).bits);
}

TEST_F(ExportTest, TheSameCheckpointGivesTheSameBytes) {
  const fs::path path = checkpoint("");
  const fs::path first = exported(path), second = exported(path);
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(first)) {
    names.push_back(entry.path().filename());
    EXPECT_EQ(read_file(entry.path()), read_file(second / names.back())) << names.back();
  }
  EXPECT_THAT(names, testing::UnorderedElementsAre("model.bin", "config.json", "shared_vocabulary.json",
                                                   "sentencepiece.model", "conformance.jsonl", "README.md"));
  EXPECT_THAT(read_file(first / "README.md"), HasSubstr("encoder and decoder layers | 2 and 1"));
}

TEST_F(ExportTest, ConformanceHasTheTranslationsOfEachSource) {
  std::ifstream file(exported(checkpoint("")) / "conformance.jsonl");
  std::size_t count = 0;
  const Vocabulary vocabulary = Vocabulary::from_bytes(vocabulary_, "test");
  for (std::string line; std::getline(file, line); ++count) {
    const json::object object = parse_json(line).value().as_object();
    EXPECT_EQ(object.at("source").as_string(), lines.at(count));
    std::vector<std::int32_t> ids;
    for (const json::value& id : object.at("source_ids").as_array()) ids.push_back(id.to_number<std::int32_t>());
    EXPECT_EQ(ids, vocabulary.encode(lines[count]));
    EXPECT_GE(object.at("best").at("log_probability").to_number<double>() + 1e-4,
              object.at("greedy").at("log_probability").to_number<double>());
  }
  EXPECT_EQ(count, lines.size());
}

TEST_F(ExportTest, RefusesAnExistingFolderAndLeavesNothingBehind) {
  const fs::path path = checkpoint("");
  const fs::path output = exported(path);
  EXPECT_THAT([&] { export_checkpoint(path, {.sources = lines}, output); },
              ThrowsMessage<UsageFailure>(HasSubstr("exists already")));
  spoil_ = [](CheckpointContent& content) { content.weights.pop_back(); };
  fs::remove_all(path);
  checkpoint("");
  EXPECT_THAT([&] { export_checkpoint(path, {.sources = lines}, folder_.path() / "broken"); },
              ThrowsMessage<Failure>(HasSubstr("decoder.norm.bias")));
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_.path())) {
    EXPECT_THAT(entry.path().filename().string(), testing::AnyOf("checkpoint", "1", "spm.model"));
  }
}

TEST_F(ExportTest, RefusesPartsThatTheFormatsLack) {
  const fs::path path = checkpoint("  norm_kind: rms\n  activation: swiglu\n  positions: rotary\n");
  const auto refusal = [&](const fs::path& model, ExportFormat format) {
    try {
      exported(model, Quantization::float32, format);
    } catch (const UsageFailure& failure) {
      return std::string(failure.what());
    }
    return std::string("nothing");
  };
  const std::string needs =
      " needs a model with model.positions: sinusoid or marian (found rotary), model.activation: relu, swish or gelu "
      "(found swiglu), model.norm_kind: layer (found rms)";
  EXPECT_EQ(refusal(path, ExportFormat::ctranslate2), "export: CTranslate2" + needs);
  EXPECT_EQ(refusal(path, ExportFormat::huggingface), "export: Hugging Face's MarianMTModel" + needs);
  EXPECT_THAT(refusal(path, ExportFormat::marian), HasSubstr("model.norm_kind: layer (found rms)"));
  fs::remove_all(path);
  EXPECT_EQ(refusal(checkpoint("  norm_kind: rms\n"), ExportFormat::ctranslate2),
            "export: CTranslate2 needs a model with model.norm_kind: layer (found rms)");
}

TEST_F(ExportTest, RefusesALanguageModel) {
  const fs::path path = checkpoint("");
  spoil_ = [](CheckpointContent& content) {
    content.texts["config.yaml"] =
        "task: gssm\ngssm:\n  nodes: [{name: Z, state_dim: 4, parents: [X]}, {name: X, state_dim: 8, parents: [Z]}]\n";
  };
  fs::remove_all(path);
  checkpoint("");
  EXPECT_THAT([&] { export_checkpoint(path, {.sources = lines}, folder_.path() / "none"); },
              ThrowsMessage<UsageFailure>(HasSubstr("found a language model, expected a translation model")));
}

}  // namespace
}  // namespace babelring
