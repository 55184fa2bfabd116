#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "base/failure.h"
#include "base/json.h"
#include "base/protobuf.h"
#include "nmt/checkpoint/safetensors.h"
#include "tests/nmt/interop/export_fixture.h"

namespace babelring {
namespace {

/// The fields of a protobuf message, by number. Requires that all bytes belong to a field.
struct Fields {
  explicit Fields(std::string_view bytes) {
    while (!bytes.empty()) {
      const std::uint64_t key = varint(bytes);
      const auto kind = key & 7;
      if (kind == 0) {
        numbers.emplace(key >> 3, varint(bytes));
        continue;
      }
      const std::size_t size = kind == 5 ? 4 : varint(bytes);
      EXPECT_TRUE(kind == 2 || kind == 5);
      if (size > bytes.size()) {
        ADD_FAILURE() << "a field of " << size << " bytes, " << bytes.size() << " left";
        return;
      }
      fields.emplace(key >> 3, bytes.substr(0, size));
      bytes.remove_prefix(size);
    }
  }
  static std::uint64_t varint(std::string_view& bytes) {
    std::uint64_t value = 0;
    for (int shift = 0; !bytes.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes.front());
      bytes.remove_prefix(1);
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) break;
    }
    return value;
  }
  std::vector<std::string> all(std::uint64_t field) const {
    std::vector<std::string> values;
    for (auto [at, end] = fields.equal_range(field); at != end; ++at) values.emplace_back(at->second);
    return values;
  }
  std::string one(std::uint64_t field) const { return all(field).at(0); }

  std::multimap<std::uint64_t, std::string_view> fields;
  std::multimap<std::uint64_t, std::uint64_t> numbers;
};

/// A graph whose every input of a node is a value from before it.
struct Graph {
  explicit Graph(const fs::path& file) : bytes(read_file(file)) {
    const Fields model(bytes);
    EXPECT_EQ(Fields(model.one(8)).numbers.find(2)->second, 17u) << "opset";
    const std::string graph_bytes = model.one(7);
    const Fields graph(graph_bytes);
    std::set<std::string> known;
    for (const std::string& input : graph.all(11)) known.insert(inputs.emplace_back(Fields(input).one(1)));
    for (const std::string& tensor : graph.all(5)) {
      const Fields message(tensor);
      EXPECT_TRUE(known.insert(message.one(8)).second) << message.one(8);
      tensors[message.one(8)] = message.one(9);
    }
    for (const std::string& node : graph.all(1)) {
      const Fields message(node);
      for (const std::string& input : message.all(1)) EXPECT_TRUE(known.contains(input)) << input;
      for (const std::string& output : message.all(2)) EXPECT_TRUE(known.insert(output).second) << output;
    }
    for (const std::string& output : graph.all(12)) {
      EXPECT_TRUE(known.contains(outputs.emplace_back(Fields(output).one(1))));
    }
  }
  std::vector<float> values(const std::string& name) const {
    const std::string& data = tensors.at(name);
    std::vector<float> result(data.size() / sizeof(float));
    std::memcpy(result.data(), data.data(), data.size());
    return result;
  }

  std::string bytes;
  std::vector<std::string> inputs, outputs;
  std::map<std::string, std::string> tensors;
};

class HuggingfaceTest : public ExportTest {
 protected:
  fs::path exported(const fs::path& checkpoint) {
    return ExportTest::exported(checkpoint, Quantization::float32, ExportFormat::huggingface);
  }
  /// All weights but the tables are in one of the graphs, unchanged; tables have a row of zeros at the end.
  void require_weights(const std::vector<const Graph*>& graphs) {
    for (const Parameter& parameter : model_->parameters().all()) {
      int found = 0;
      for (const Graph* graph : graphs) {
        if (!graph->tensors.contains(parameter.name)) continue;
        ++found;
        std::vector<float> expected = ours(parameter.name);
        if (parameter.name.ends_with("embedding") || parameter.name == "output") expected.resize(expected.size() + 8);
        EXPECT_EQ(graph->values(parameter.name), expected) << parameter.name;
      }
      EXPECT_EQ(found, parameter.name == "embedding" ? 2 : 1) << parameter.name;
    }
  }
};

TEST_F(HuggingfaceTest, GraphsHaveAllWeightsAndTheNamesThatCallersUse) {
  for (const std::string options :
       {"", "  tied_embeddings: none\n  norm: post\n  attention_bias: true\n", "  tied_embeddings: decoder\n"}) {
    fs::remove_all(folder_.path() / "checkpoint");
    const fs::path output = exported(checkpoint(options)) / "onnx";
    const Graph encoder(output / "encoder_model.onnx"), decoder(output / "decoder_model_merged.onnx");
    EXPECT_THAT(encoder.inputs, testing::ElementsAre("input_ids", "attention_mask"));
    EXPECT_THAT(encoder.outputs, testing::ElementsAre("last_hidden_state"));
    EXPECT_THAT(decoder.inputs,
                testing::ElementsAre("input_ids", "encoder_attention_mask", "encoder_hidden_states",
                                     "past_key_values.0.decoder.key", "past_key_values.0.decoder.value",
                                     "past_key_values.0.encoder.key", "past_key_values.0.encoder.value"));
    EXPECT_THAT(decoder.outputs, testing::ElementsAre("present.0.decoder.key", "present.0.decoder.value",
                                                      "present.0.encoder.key", "present.0.encoder.value", "logits"));
    require_weights({&encoder, &decoder});
    EXPECT_EQ(decoder.values("final_logits_bias").back(), -1e9F) << "<pad> is never chosen";
    EXPECT_EQ(decoder.values("final_logits_bias").front(), 0);
  }
}

/// [rows, 8] values with the columns in the order 0 2 4 6 1 3 5 7: all sines before all cosines.
std::vector<float> sines_first(const std::vector<float>& values) {
  std::vector<float> result;
  for (std::size_t row = 0; row < values.size(); row += 8) {
    for (const std::size_t column : {0, 2, 4, 6, 1, 3, 5, 7}) result.push_back(values[row + column]);
  }
  return result;
}

std::vector<float> values_of(const ConstTensor& tensor) {
  return {tensor.as<float>(), tensor.as<float>() + tensor.shape.elements()};
}

TEST_F(HuggingfaceTest, SafetensorsHaveTheFeaturesInTheOrderOfTheirPositions) {
  const fs::path output = exported(checkpoint("  norm: post\n"));
  const SafetensorsReader reader(output / "model.safetensors");
  EXPECT_EQ(reader.entries().size(), 2U + 2 * 16 + 26) << "a table, a bias, two encoder layers, a decoder layer";
  std::vector<float> table = sines_first(ours("embedding"));
  table.resize(table.size() + 8);  // <pad>
  EXPECT_EQ(values_of(reader.tensor("model.shared.weight", {35, 8})), table);
  EXPECT_EQ(values_of(reader.tensor("final_logits_bias", {1, 35})).back(), -1e9F);
  const std::vector<float> qkv = sines_first(ours("encoder.1.attention.qkv.weight"));
  EXPECT_EQ(values_of(reader.tensor("model.encoder.layers.1.self_attn.k_proj.weight", {8, 8})),
            std::vector<float>(qkv.begin() + 64, qkv.begin() + 128));
  EXPECT_EQ(values_of(reader.tensor("model.encoder.layers.1.self_attn.k_proj.bias", {8})), std::vector<float>(8));
  EXPECT_EQ(values_of(reader.tensor("model.decoder.layers.0.fc2.bias", {8})),
            sines_first(ours("decoder.0.feed_forward.second.bias")));
  EXPECT_EQ(values_of(reader.tensor("model.decoder.layers.0.fc1.bias", {12})),
            ours("decoder.0.feed_forward.first.bias"));
  EXPECT_EQ(values_of(reader.tensor("model.decoder.layers.0.encoder_attn_layer_norm.weight", {8})),
            sines_first(ours("decoder.0.cross_norm.gain")));
  for (const char* file : {"source.spm", "target.spm"}) EXPECT_EQ(read_file(output / file), vocabulary_);
  EXPECT_EQ(parse_json(read_file(output / "vocab.json")).value().as_object().at("<pad>").as_int64(), 34);
}

TEST_F(HuggingfaceTest, ModelWithNormsBeforeLeavesOutWhatPythonNeedsAndSaysSo) {
  const fs::path output = exported(checkpoint(""));
  EXPECT_FALSE(fs::exists(output / "model.safetensors"));
  EXPECT_FALSE(fs::exists(output / "source.spm"));
  EXPECT_THAT(read_file(output / "README.md"), testing::HasSubstr("MarianMTModel has norms after"));
  EXPECT_TRUE(fs::exists(output / "onnx" / "encoder_model.onnx"));
}

TEST_F(HuggingfaceTest, MarianModelHasTheActivationButNoOtherEpsilon) {
  fs::path output = exported(checkpoint("  norm: post\n  activation: swish\n"));
  EXPECT_TRUE(fs::exists(output / "model.safetensors"));
  const json::value config = parse_json(read_file(output / "config.json")).value();
  EXPECT_EQ(config.at("activation_function").as_string(), "swish");
  fs::remove_all(folder_.path() / "checkpoint");
  output = exported(checkpoint("  norm: post\n  norm_epsilon: 1e-6\n"));
  EXPECT_FALSE(fs::exists(output / "model.safetensors"));
  EXPECT_THAT(read_file(output / "README.md"),
              testing::HasSubstr("MarianMTModel has 1e-05 for the variance, this model 1e-06"));
}

TEST_F(HuggingfaceTest, OutputBiasAndZeroStartAreThoseOfPadding) {
  const fs::path output = exported(checkpoint("  norm: post\n  decoder_start: zero\n  output_bias: true\n"));
  std::vector<float> bias = ours("output.bias");
  bias.push_back(-1e9F);
  const SafetensorsReader reader(output / "model.safetensors");
  EXPECT_EQ(values_of(reader.tensor("final_logits_bias", {1, 35})), bias);
  EXPECT_EQ(Graph(output / "onnx" / "decoder_model_merged.onnx").values("final_logits_bias"), bias);
  for (const char* file : {"config.json", "generation_config.json"}) {
    EXPECT_EQ(parse_json(read_file(output / file)).value().at("decoder_start_token_id").as_int64(), 34);
  }
  for (const char* rest : {"weight", "bias"}) EXPECT_EQ(reader.find(std::string("lm_head.") + rest), nullptr);
}

TEST_F(HuggingfaceTest, PositionsOfMarianAreInTheGraphs) {
  const fs::path output = exported(checkpoint("  norm: post\n  positions: marian\n"));
  EXPECT_FALSE(fs::exists(output / "model.safetensors"));
  EXPECT_THAT(read_file(output / "README.md"), testing::HasSubstr("this model those of Marian (model.positions"));
  for (const char* side : {"encoder_model.onnx", "decoder_model_merged.onnx"}) {
    const std::vector<float> positions = Graph(output / "onnx" / side).values("positions");
    for (const std::size_t i : {0, 1, 2, 3}) {  // 10000^(-i/3): 1, 0.046, 0.0022, 0.0001
      EXPECT_FLOAT_EQ(positions[8 + 2 * i], std::sin(std::pow(10000.F, -static_cast<float>(i) / 3)));
    }
  }
}

TEST_F(HuggingfaceTest, TokenizerHasEveryWayToJoinPieces) {
  const fs::path output = exported(checkpoint(""));
  const json::value file = parse_json(read_file(output / "tokenizer.json")).value();
  const json::object& model = file.at("model").as_object();
  const json::object& ids = model.at("vocab").as_object();
  const Vocabulary vocabulary = Vocabulary::from_bytes(vocabulary_, "test");
  ASSERT_EQ(ids.size(), 35U);
  std::size_t splits = 0;
  for (std::int32_t id = 0; id < vocabulary.size(); ++id) {
    const std::string& piece = vocabulary.piece(id);
    EXPECT_EQ(ids.at(piece).as_int64(), id);
    for (std::size_t at = 1; at < piece.size(); ++at) {
      splits += ids.contains(piece.substr(0, at)) && ids.contains(piece.substr(at)) ? 1 : 0;
    }
  }
  EXPECT_EQ(model.at("merges").as_array().size(), splits);
  EXPECT_GT(splits, 0U);
  EXPECT_TRUE(file.at("added_tokens").as_array().empty()) << "the text </s> is only text";
  EXPECT_FALSE(model.at("ignore_merges").as_bool());
}

TEST_F(HuggingfaceTest, TokenizerCutsOutSymbols) {
  vocabulary_ = with_symbols(vocabulary_, {"<a>", "<a><b>"});
  const json::value file = parse_json(read_file(exported(checkpoint("")) / "tokenizer.json")).value();
  const json::array& steps = file.at("pre_tokenizer").at("pretokenizers").as_array();
  ASSERT_EQ(steps.size(), 3U);
  EXPECT_EQ(steps[1].at("pattern").at("String").as_string(), "<a><b>") << "the longer first";
  EXPECT_TRUE(file.at("model").at("ignore_merges").as_bool());
}

/// A SentencePiece model whose last piece has another text.
std::string with_last_piece(const std::string& model, std::string_view text) {
  std::vector<std::string> pieces;
  ProtobufMessage changed;
  for (ProtobufReader reader(model); reader.next();) {
    if (reader.field() == 1) {
      pieces.emplace_back(reader.bytes());
    } else {
      changed.bytes(reader.field(), reader.bytes());
    }
  }
  pieces.back() = ProtobufMessage().bytes(1, text).number(2, -99).text();
  for (const std::string& piece : pieces) changed.bytes(1, piece);
  return changed.text();
}

TEST_F(HuggingfaceTest, VocabularyWithThePieceOfPaddingIsRefused) {
  vocabulary_ = with_last_piece(vocabulary_, "<pad>");
  EXPECT_THAT([&] { exported(checkpoint("")); },
              testing::ThrowsMessage<Failure>(testing::HasSubstr("has a piece <pad>, which the format adds")));
}

TEST(ProtobufReader, RefusesAMessageThatEndsInsideAField) {
  const std::string whole = ProtobufMessage().bytes(1, "piece").text();
  for (std::size_t size = 1; size < whole.size(); ++size) {
    EXPECT_THROW(ProtobufReader(std::string_view(whole).substr(0, size)).next(), Failure) << size;
  }
}

}  // namespace
}  // namespace babelring
