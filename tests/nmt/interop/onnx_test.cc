#include <cstring>
#include <map>
#include <set>

#include "tests/nmt/interop/export_fixture.h"

namespace babelring {
namespace {

/// The fields of a protobuf message, by number. Requires that all bytes belong to a field.
struct Message {
  explicit Message(std::string_view bytes) {
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
    const Message model(bytes);
    EXPECT_EQ(Message(model.one(8)).numbers.find(2)->second, 17u) << "opset";
    const std::string graph_bytes = model.one(7);
    const Message graph(graph_bytes);
    std::set<std::string> known;
    for (const std::string& input : graph.all(11)) known.insert(inputs.emplace_back(Message(input).one(1)));
    for (const std::string& tensor : graph.all(5)) {
      const Message message(tensor);
      EXPECT_TRUE(known.insert(message.one(8)).second) << message.one(8);
      tensors[message.one(8)] = message.one(9);
    }
    for (const std::string& node : graph.all(1)) {
      const Message message(node);
      for (const std::string& input : message.all(1)) EXPECT_TRUE(known.contains(input)) << input;
      for (const std::string& output : message.all(2)) EXPECT_TRUE(known.insert(output).second) << output;
    }
    for (const std::string& output : graph.all(12)) {
      EXPECT_TRUE(known.contains(outputs.emplace_back(Message(output).one(1))));
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

class OnnxTest : public ExportTest {
 protected:
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

TEST_F(OnnxTest, GraphsHaveAllWeightsAndTheNamesThatCallersUse) {
  for (const std::string options :
       {"", "  tied_embeddings: none\n  norm: post\n  attention_bias: true\n", "  tied_embeddings: decoder\n"}) {
    fs::remove_all(folder_.path() / "checkpoint");
    const fs::path output = exported(checkpoint(options), Quantization::float32, ExportFormat::onnx);
    const Graph encoder(output / "encoder_model.onnx"), decoder(output / "decoder_model_merged.onnx");
    EXPECT_THAT(encoder.inputs, testing::ElementsAre("input_ids", "attention_mask"));
    EXPECT_THAT(encoder.outputs, testing::ElementsAre("last_hidden_state"));
    EXPECT_THAT(decoder.inputs,
                testing::ElementsAre("input_ids", "encoder_attention_mask", "encoder_hidden_states",
                                     "past_key_values.0.decoder.key", "past_key_values.0.decoder.value"));
    EXPECT_THAT(decoder.outputs, testing::ElementsAre("present.0.decoder.key", "present.0.decoder.value", "logits"));
    require_weights({&encoder, &decoder});
    EXPECT_EQ(decoder.values("final_logits_bias").back(), -1e9F) << "<pad> is never chosen";
    EXPECT_EQ(decoder.values("final_logits_bias").front(), 0);
  }
}

}  // namespace
}  // namespace babelring
