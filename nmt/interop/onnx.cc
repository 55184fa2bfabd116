// The graphs: opset 17, with the names of inputs and outputs that transformers.js gives a MarianMTModel.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <numbers>
#include <set>
#include <span>
#include <variant>

#include "base/failure.h"
#include "base/files.h"
#include "base/mapped_file.h"
#include "base/protobuf.h"
#include "nmt/interop/export.h"

namespace babelring {
namespace {

constexpr int ir_version = 8, opset = 17;

enum class TensorType { f32 = 1, i64 = 7 };  // TensorProto.DataType

/// A graph under construction, with the field numbers of onnx.proto. Values are named by the op that makes them; each
/// op returns the name of its output.
class Graph {
 public:
  explicit Graph(const std::string& name) { graph_.bytes(2, name); }

  /// A dimension is a number, or the name of one that callers choose.
  using Dimensions = std::initializer_list<std::variant<std::int64_t, const char*>>;
  std::string input(const std::string& name, TensorType type, Dimensions dimensions) {
    graph_.message(11, described(name, type, dimensions));
    return name;
  }
  void output(const std::string& value, const std::string& name, Dimensions dimensions) {
    graph_.message(1, ProtobufMessage().bytes(1, value).bytes(2, name).bytes(4, "Identity"));
    graph_.message(12, described(name, TensorType::f32, dimensions));
  }

  struct Attribute {
    const char* name;
    std::variant<std::int64_t, float, std::vector<std::int64_t>> value;
  };
  using Attributes = std::initializer_list<Attribute>;
  std::vector<std::string> ops(std::string_view type, const std::vector<std::string>& inputs, int outputs,
                               Attributes attributes = {}) {
    ProtobufMessage node;
    for (const std::string& name : inputs) node.bytes(1, name);
    std::vector<std::string> names;
    for (int i = 0; i < outputs; ++i) {
      names.push_back(fmt::format("{}_{}", type, ++count_));
      node.bytes(2, names.back());
    }
    node.bytes(4, type);
    for (const Attribute& attribute : attributes) node.message(5, encoded(attribute));
    graph_.message(1, node);
    return names;
  }
  std::string op(std::string_view type, const std::vector<std::string>& inputs, Attributes attributes = {}) {
    return ops(type, inputs, 1, attributes).front();
  }

  std::string transpose(const std::string& x, std::vector<std::int64_t> axes) {
    return op("Transpose", {x}, {{"perm", std::move(axes)}});
  }

  std::string number(float value) { return constant(TensorType::f32, {}, &value, sizeof value); }
  std::string integer(std::int64_t value) { return constant(TensorType::i64, {}, &value, sizeof value); }
  std::string integers(const std::vector<std::int64_t>& values) {
    return constant(TensorType::i64, {std::ssize(values)}, values.data(), values.size() * sizeof(std::int64_t));
  }
  /// A tensor of f32 under its own name, once: `mapped`, which must outlive the graph, and after it `own`.
  std::string tensor(const std::string& name, const std::vector<std::int64_t>& shape, std::string_view mapped,
                     std::string own = {}) {
    if (!names_.insert(name).second) return name;
    ProtobufMessage header = tensor_header(name, TensorType::f32, shape);
    header.length(9, mapped.size() + own.size());
    tensors_.push_back({.header = header.text(), .mapped = mapped, .own = std::move(own)});
    return name;
  }

  /// Throws Failure if the file would have 2 GiB, which protobuf cannot hold.
  void write(const std::filesystem::path& file) const {
    ProtobufMessage model;
    model.integer(1, ir_version).bytes(2, "babelring").message(8, ProtobufMessage().integer(2, opset));
    std::size_t size = graph_.text().size();
    for (const StoredTensor& tensor : tensors_)
      size += ProtobufMessage().length(5, tensor.size()).text().size() + tensor.size();
    model.length(7, size);
    if (size + model.text().size() > std::numeric_limits<std::int32_t>::max()) {
      fail("export: {} has {} bytes, expected less than 2 GiB", file.filename().string(), size);
    }
    AtomicFile output(file);
    output.write(model.text());
    output.write(graph_.text());
    for (const StoredTensor& tensor : tensors_) {
      output.write(ProtobufMessage().length(5, tensor.size()).text());
      for (const std::string_view part :
           {std::string_view(tensor.header), tensor.mapped, std::string_view(tensor.own)}) {
        output.write(part);
      }
      release_pages(std::as_bytes(std::span(tensor.mapped)));
    }
    output.commit();
  }

 private:
  struct StoredTensor {
    std::string header;
    std::string_view mapped;
    std::string own;
    std::size_t size() const { return header.size() + mapped.size() + own.size(); }
  };

  static ProtobufMessage described(const std::string& name, TensorType type, Dimensions dimensions) {
    ProtobufMessage shape;
    for (const auto& dimension : dimensions) {
      const auto* size = std::get_if<std::int64_t>(&dimension);
      shape.message(1, size != nullptr ? ProtobufMessage().integer(1, *size)
                                       : ProtobufMessage().bytes(2, std::get<const char*>(dimension)));
    }
    const ProtobufMessage tensor = ProtobufMessage().integer(1, static_cast<std::int64_t>(type)).message(2, shape);
    return ProtobufMessage().bytes(1, name).message(2, ProtobufMessage().message(1, tensor));
  }
  static ProtobufMessage encoded(const Attribute& attribute) {
    ProtobufMessage message;
    message.bytes(1, attribute.name);
    if (const auto* integer = std::get_if<std::int64_t>(&attribute.value))
      return message.integer(3, *integer).integer(20, 2);
    if (const auto* number = std::get_if<float>(&attribute.value)) return message.number(2, *number).integer(20, 1);
    for (const std::int64_t each : std::get<std::vector<std::int64_t>>(attribute.value)) message.integer(8, each);
    return message.integer(20, 7);
  }
  static ProtobufMessage tensor_header(const std::string& name, TensorType type,
                                       const std::vector<std::int64_t>& shape) {
    ProtobufMessage header;
    for (const std::int64_t extent : shape) header.integer(1, extent);
    return header.integer(2, static_cast<std::int64_t>(type)).bytes(8, name);
  }
  std::string constant(TensorType type, const std::vector<std::int64_t>& shape, const void* data, std::size_t size) {
    const std::string name = fmt::format("constant_{}", ++count_);
    graph_.message(5, tensor_header(name, type, shape).bytes(9, {static_cast<const char*>(data), size}));
    return name;
  }

  ProtobufMessage graph_;
  std::vector<StoredTensor> tensors_;
  std::set<std::string> names_;
  int count_ = 0;
};

/// The layers of a model as parts of a graph. All values are [batch, tokens, width] but where said.
class Layers {
 public:
  Layers(Graph& graph, const ExportedModel& model) : g(graph), model_(model), config_(model.config.model) {}

  Graph& g;

  std::string weight(const std::string& name) {
    const ConstTensor tensor = model_.weights.tensor(name);
    std::vector<std::int64_t> shape;
    shape.reserve(static_cast<std::size_t>(tensor.shape.rank()));
    for (int axis = 0; axis < tensor.shape.rank(); ++axis) shape.push_back(tensor.shape[axis]);
    return g.tensor(name, shape, {tensor.as<char>(), tensor.bytes()});
  }
  /// A table with a row of zeros for <pad> at the end.
  std::string table(const std::string& name) {
    const ConstTensor tensor = model_.weights.tensor(name);
    return g.tensor(name, {tensor.shape[0] + 1, config_.width}, {tensor.as<char>(), tensor.bytes()},
                    std::string(static_cast<std::size_t>(config_.width) * sizeof(float), '\0'));
  }
  std::string linear(const std::string& x, const std::string& name) {
    const std::string y = g.op("MatMul", {x, g.transpose(weight(name + ".weight"), {1, 0})});
    return model_.weights.contains(name + ".bias") ? g.op("Add", {y, weight(name + ".bias")}) : y;
  }
  std::string norm(const std::string& x, const std::string& name) {
    return g.op("LayerNormalization", {x, weight(name + ".gain"), weight(name + ".bias")},
                {{"axis", std::int64_t{-1}}, {"epsilon", static_cast<float>(config_.norm_epsilon)}});
  }
  /// A sub-layer with its residual sum and norm.
  template <class Body>
  std::string block(const std::string& x, const std::string& norm_name, Body body) {
    if (config_.norm == NormPosition::pre) return g.op("Add", {x, body(norm(x, norm_name))});
    return norm(g.op("Add", {x, body(x)}), norm_name);
  }
  /// ids and the position of the first → embeddings.
  std::string embed(const std::string& ids, const std::string& table_name, const std::string& first) {
    const std::vector<float> sines = sinusoids(config_.width, config_.position_divisor());
    const std::string all =
        g.tensor("positions", {exported_positions, config_.width}, {},
                 std::string(reinterpret_cast<const char*>(sines.data()), sines.size() * sizeof(float)));
    const std::string tokens = g.op("Gather", {g.op("Shape", {ids}), g.integers({1})});
    const std::string rows = g.op("Slice", {all, first, g.op("Add", {first, tokens}), g.integers({0})});
    const auto root = static_cast<float>(std::sqrt(static_cast<double>(config_.width)));
    return g.op("Add", {g.op("Mul", {g.op("Gather", {table_name, ids}), g.number(root)}), rows});
  }
  /// → [batch, heads, tokens, width / heads]
  std::string heads(const std::string& x) {
    const std::string shaped = g.op("Reshape", {x, g.integers({0, 0, config_.heads, config_.width / config_.heads})});
    return g.transpose(shaped, {0, 2, 1, 3});
  }
  /// Attention with queries, keys and values by heads; `mask` is added to the scores.
  std::string attend(const std::string& q, const std::string& k, const std::string& v, const std::string& mask) {
    const std::int64_t size = config_.width / config_.heads;
    const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(size)));
    const std::string keys = g.transpose(k, {0, 1, 3, 2});
    const std::string scores = g.op("Add", {g.op("Mul", {g.op("MatMul", {q, keys}), g.number(scale)}), mask});
    const std::string mixed = g.op("MatMul", {g.op("Softmax", {scores}, {{"axis", std::int64_t{-1}}}), v});
    const std::string rows = g.transpose(mixed, {0, 2, 1, 3});
    return g.op("Reshape", {rows, g.integers({0, 0, config_.width})});
  }
  /// Equal parts of the features.
  std::vector<std::string> split(const std::string& x, int parts) {
    return g.ops("Split", {x}, parts, {{"axis", std::int64_t{-1}}});
  }
  std::string feed_forward(const std::string& x, const std::string& name) {
    return linear(activation(linear(x, name + ".first")), name + ".second");
  }
  /// Swish and GELU by their formulas, as opset 17 has no ops for them.
  std::string activation(const std::string& x) {
    if (config_.activation == Activation::relu) return g.op("Relu", {x});
    if (config_.activation == Activation::swish) return g.op("Mul", {x, g.op("Sigmoid", {x})});
    const std::string root = g.number(std::numbers::sqrt2_v<float>);
    const std::string doubled = g.op("Add", {g.op("Erf", {g.op("Div", {x, root})}), g.number(1)});
    return g.op("Mul", {x, g.op("Mul", {doubled, g.number(0.5F)})});
  }
  /// 0 where `mask` [batch, tokens] is 1, else `never_chosen`: [batch, 1, 1, tokens].
  std::string source_mask(const std::string& mask) {
    const std::string given = g.op("Cast", {mask}, {{"to", static_cast<std::int64_t>(TensorType::f32)}});
    const std::string bias = g.op("Mul", {g.op("Sub", {g.number(1), given}), g.number(never_chosen)});
    return g.op("Unsqueeze", {bias, g.integers({1, 2})});
  }
  const ModelConfig& config() const { return config_; }
  std::string table_name(const char* own) const {
    return config_.tied_embeddings == TiedEmbeddings::all ? "embedding" : own;
  }

 private:
  const ExportedModel& model_;
  const ModelConfig& config_;
};

void write_encoder(const ExportedModel& model, const std::filesystem::path& file) {
  Graph g("encoder");
  Layers layers(g, model);
  const std::string ids = g.input("input_ids", TensorType::i64, {"batch", "source"});
  const std::string mask = layers.source_mask(g.input("attention_mask", TensorType::i64, {"batch", "source"}));
  std::string x = layers.embed(ids, layers.table(layers.table_name("encoder.embedding")), g.integers({0}));
  for (int i = 0; i < layers.config().encoder_layers; ++i) {
    const std::string name = "encoder." + std::to_string(i);
    x = layers.block(x, name + ".attention_norm", [&](const std::string& h) {
      const auto qkv = layers.split(layers.linear(h, name + ".attention.qkv"), 3);
      const std::string mixed = layers.attend(layers.heads(qkv[0]), layers.heads(qkv[1]), layers.heads(qkv[2]), mask);
      return layers.linear(mixed, name + ".attention.output");
    });
    x = layers.block(x, name + ".feed_forward_norm",
                     [&](const std::string& h) { return layers.feed_forward(h, name + ".feed_forward"); });
  }
  if (layers.config().norm == NormPosition::pre) x = layers.norm(x, "encoder.norm");
  g.output(x, "last_hidden_state", {"batch", "source", layers.config().width});
  g.write(file);
}

/// 0 where a target position may see another, else `never_chosen`: [tokens, past + tokens]. `past`: [1], how many there
/// are before; `total`: [1], with the new ones.
std::string causal_mask(Graph& g, const std::string& past, const std::string& total) {
  const auto range = [&](const std::string& first) {
    const auto scalar = [&](const std::string& value) { return g.op("Squeeze", {value, g.integers({0})}); };
    return g.op("Range", {scalar(first), scalar(total), g.integer(1)});
  };
  const std::string query = g.op("Unsqueeze", {range(past), g.integers({1})});
  const std::string key = g.op("Unsqueeze", {range(g.integers({0})), g.integers({0})});
  const std::string hidden =
      g.op("Cast", {g.op("Greater", {key, query})}, {{"to", static_cast<std::int64_t>(TensorType::f32)}});
  return g.op("Mul", {hidden, g.number(never_chosen)});
}

/// The inputs of a decoder layer, without its x. Caches are keys and values, [batch, heads, tokens, width / heads].
struct DecoderInputs {
  std::array<std::string, 2> cache, source_cache;  // of earlier positions; of the source, empty at the first step
  std::string causal_mask, fresh_memory, source_mask;
};

/// Appends the newest keys and values, [batch, tokens, width] each, and gives the whole as present.I.SIDE.key and
/// .value.
std::array<std::string, 2> extended_cache(Layers& layers, const std::array<std::string, 2>& cache,
                                          std::span<const std::string> newest, const std::string& name,
                                          const char* tokens) {
  Graph& g = layers.g;
  const ModelConfig& config = layers.config();
  std::array<std::string, 2> whole;
  for (std::size_t i = 0; i < 2; ++i) {
    whole[i] = g.op("Concat", {cache[i], layers.heads(newest[i])}, {{"axis", std::int64_t{2}}});
    g.output(whole[i], fmt::format("present.{}.{}", name, i == 0 ? "key" : "value"),
             {"batch", config.heads, tokens, config.width / config.heads});
  }
  return whole;
}

/// Also adds the outputs present.I.decoder.* and present.I.encoder.*.
std::string decoder_layer(Layers& layers, int layer, std::string x, const DecoderInputs& inputs) {
  const std::string name = fmt::format("decoder.{}", layer);
  x = layers.block(x, name + ".self_norm", [&](const std::string& h) {
    const auto qkv = layers.split(layers.linear(h, name + ".self.qkv"), 3);
    const auto [keys, values] =
        extended_cache(layers, inputs.cache, std::span(qkv).subspan(1), fmt::format("{}.decoder", layer), "total");
    return layers.linear(layers.attend(layers.heads(qkv[0]), keys, values, inputs.causal_mask), name + ".self.output");
  });
  x = layers.block(x, name + ".cross_norm", [&](const std::string& h) {
    const std::string query = layers.heads(layers.linear(h, name + ".cross.query"));
    const auto kv = layers.split(layers.linear(inputs.fresh_memory, name + ".cross.key_value"), 2);
    const auto [keys, values] =
        extended_cache(layers, inputs.source_cache, kv, fmt::format("{}.encoder", layer), "source");
    return layers.linear(layers.attend(query, keys, values, inputs.source_mask), name + ".cross.output");
  });
  return layers.block(x, name + ".feed_forward_norm",
                      [&](const std::string& h) { return layers.feed_forward(h, name + ".feed_forward"); });
}

/// The decoder with caches of keys and values: of length 0 at the first step.
void write_decoder(const ExportedModel& model, const std::filesystem::path& file) {
  Graph g("decoder");
  Layers layers(g, model);
  const ModelConfig& config = layers.config();
  const std::int64_t head = config.width / config.heads;
  const std::string ids = g.input("input_ids", TensorType::i64, {"batch", "target"});
  const std::string source_mask =
      layers.source_mask(g.input("encoder_attention_mask", TensorType::i64, {"batch", "source"}));
  const std::string memory = g.input("encoder_hidden_states", TensorType::f32, {"batch", "source", config.width});
  std::vector<std::array<std::string, 2>> caches, source_caches;
  for (int i = 0; i < config.decoder_layers; ++i) {
    const auto cache = [&](const char* side, const char* which, const char* tokens) {
      return g.input(fmt::format("past_key_values.{}.{}.{}", i, side, which), TensorType::f32,
                     {"batch", config.heads, tokens, head});
    };
    caches.push_back({cache("decoder", "key", "past"), cache("decoder", "value", "past")});
    source_caches.push_back({cache("encoder", "key", "past_source"), cache("encoder", "value", "past_source")});
  }
  // The first step projects all tokens of the source, the later ones none.
  const auto extent = [&](const std::string& x, std::int64_t axis) {
    return g.op("Gather", {g.op("Shape", {x}), g.integers({axis})});
  };
  const std::string fresh = g.op("Sub", {extent(memory, 1), extent(source_caches[0][0], 2)});
  const std::string fresh_memory = g.op("Slice", {memory, g.integers({0}), fresh, g.integers({1})});
  const std::string past = extent(caches[0][0], 2);
  const std::string total = g.op("Add", {past, extent(ids, 1)});
  const std::string causal = causal_mask(g, past, total);
  std::string x = layers.embed(ids, layers.table(layers.table_name("decoder.embedding")), past);
  for (int i = 0; i < config.decoder_layers; ++i) {
    x = decoder_layer(layers, i, x,
                      {.cache = caches[static_cast<std::size_t>(i)],
                       .source_cache = source_caches[static_cast<std::size_t>(i)],
                       .causal_mask = causal,
                       .fresh_memory = fresh_memory,
                       .source_mask = source_mask});
  }
  if (config.norm == NormPosition::pre) x = layers.norm(x, "decoder.norm");
  const std::string table =
      layers.table(config.tied_embeddings == TiedEmbeddings::none ? "output" : layers.table_name("decoder.embedding"));
  const std::string logits = g.op("MatMul", {x, g.transpose(table, {1, 0})});
  const std::vector<float> bias = padded_output_bias(model);
  const std::string bytes(reinterpret_cast<const char*>(bias.data()), bias.size() * sizeof(float));
  g.output(g.op("Add", {logits, g.tensor("final_logits_bias", {std::ssize(bias)}, {}, bytes)}), "logits",
           {"batch", "target", std::ssize(bias)});
  g.write(file);
}

}  // namespace

void write_onnx(const ExportedModel& model, const std::filesystem::path& folder) {
  write_encoder(model, folder / "encoder_model.onnx");
  write_decoder(model, folder / "decoder_model_merged.onnx");
}

}  // namespace babelring
