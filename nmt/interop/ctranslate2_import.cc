// The format: CTranslate2, src/models/model.cc and python/ctranslate2/specs/transformer_spec.py.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/failure.h"
#include "base/files.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "nmt/interop/import.h"

namespace babelring {
namespace {

namespace fs = std::filesystem;

/// Reads model.bin from its first to its last byte; every length is checked against the file.
class ModelReader {
 public:
  ModelReader(std::string file, const MappedFile& mapped)
      : file_(std::move(file)), size_(mapped.bytes().size()), rest_(mapped.bytes()) {}

  template <class T>
  T number() {
    T value{};
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::string text() {
    const std::span<const std::byte> bytes = take(number<std::uint16_t>());
    std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (text.empty() || text.back() != '\0') damaged("a name does not end with a zero byte");
    text.pop_back();
    return text;
  }
  std::span<const std::byte> take(std::size_t size) {
    if (size > rest_.size()) damaged(fmt::format("found {} bytes, expected {}", rest_.size(), size));
    const std::span<const std::byte> taken = rest_.first(size);
    rest_ = rest_.subspan(size);
    return taken;
  }
  void require_end() {
    if (!rest_.empty()) damaged(fmt::format("{} bytes too much at the end", rest_.size()));
  }
  [[noreturn]] void damaged(const std::string& why) const { fail("{}: byte {}: {}", file_, size_ - rest_.size(), why); }

 private:
  std::string file_;
  std::size_t size_;
  std::span<const std::byte> rest_;
};

/// Types by their number in model.bin.
enum ElementType { f32 = 0, i8 = 1, i16 = 2, i32 = 3, f16 = 4, bf16 = 5 };

constexpr std::size_t size_of_type(int type) {
  return type == f32 || type == i32 ? 4 : type == i8 ? 1 : 2;
}

/// A number, which is an integer or f32.
double number_of(const ModelReader& reader, const std::string& name, int type, const std::byte* at) {
  const auto as = [&](auto value) {
    std::memcpy(&value, at, sizeof value);
    return static_cast<double>(value);
  };
  switch (type) {
    case f32:
      return as(float{});
    case i8:
      return as(std::int8_t{});
    case i16:
      return as(std::int16_t{});
    case i32:
      return as(std::int32_t{});
    default:
      reader.damaged(fmt::format("{} has the unknown type {}", name, type));
  }
}

/// The variables of a model.bin: numbers are those of rank 0; aliases are there under both names.
struct Contents {
  std::map<std::string, double> numbers;
  std::map<std::string, ImportedTensor> tensors;
  std::string file;

  Contents(const fs::path& path, const MappedFile& mapped) : file(path.string()) {
    ModelReader reader(file, mapped);
    const auto version = reader.number<std::uint32_t>();
    if (version != 5 && version != 6) reader.damaged(fmt::format("found binary version {}, expected 5 or 6", version));
    const std::string spec = reader.text();
    const auto revision = reader.number<std::uint32_t>();
    if (spec != "TransformerSpec") fail("{}: found {} {}, expected TransformerSpec", file, spec, revision);
    for (auto left = reader.number<std::uint32_t>(); left > 0; --left) read_variable(reader);
    for (auto left = reader.number<std::uint32_t>(); left > 0; --left) {
      const std::string alias = reader.text(), target = reader.text();
      if (const auto number = numbers.find(target); number != numbers.end()) numbers[alias] = number->second;
      if (const auto tensor = tensors.find(target); tensor != tensors.end()) tensors[alias] = tensor->second;
    }
    reader.require_end();
  }

  /// Takes a number out; `absent` if it is not there.
  double take(const std::string& name, double absent) {
    const auto found = numbers.find(name);
    if (found == numbers.end()) return absent;
    const double value = found->second;
    numbers.erase(found);
    return value;
  }
  void require(const std::string& name, double expected, double absent) {
    const double value = take(name, absent);
    if (value != expected) fail("{}: {} is {}, expected {}: ours has no such option", file, name, value, expected);
  }
  const ImportedTensor& tensor(const std::string& name, std::size_t rank) const {
    const auto found = tensors.find(name);
    if (found == tensors.end()) fail("{}: {} is missing", file, name);
    if (found->second.shape.size() != rank) {
      fail("{}: {} has {} dimensions, expected {}", file, name, found->second.shape.size(), rank);
    }
    return found->second;
  }

 private:
  void read_variable(ModelReader& reader) {
    const std::string name = reader.text();
    ImportedTensor tensor;
    std::uint64_t count = 1;
    for (auto left = reader.number<std::uint8_t>(); left > 0; --left) {
      const auto extent = reader.number<std::uint32_t>();
      tensor.shape.push_back(extent);
      if (extent != 0 && count > (std::uint64_t{1} << 40) / extent) reader.damaged(name + " has too many elements");
      count *= extent;
    }
    const int type = reader.number<std::uint8_t>();
    const auto bytes = reader.number<std::uint32_t>();
    if (type > bf16) reader.damaged(fmt::format("{} has the unknown type {}", name, type));
    if (bytes != count * size_of_type(type)) {
      reader.damaged(fmt::format("{} has {} bytes, expected {}", name, bytes, count * size_of_type(type)));
    }
    tensor.bytes = reader.take(bytes);
    if (tensor.shape.empty()) {
      numbers[name] = number_of(reader, name, type, tensor.bytes.data());
      return;
    }
    if (type == i8 || type == i16 || type == i32) {
      fail("{}: {} is quantized to integers, expected float32, float16 or bfloat16: convert the original again", file,
           name);
    }
    using Floats = ImportedTensor::Type;
    tensor.type = type == f32 ? Floats::f32 : type == f16 ? Floats::f16 : Floats::bf16;
    tensors[name] = std::move(tensor);
  }
};

/// The number of layers LAYER_0, LAYER_1, … of a side.
int layers_of(const Contents& contents, const std::string& side) {
  int count = 0;
  while (contents.tensors.contains(fmt::format("{}/layer_{}/self_attention/linear_0/weight", side, count))) ++count;
  if (count == 0) fail("{}: {}/layer_0 is missing", contents.file, side);
  return count;
}

Activation activation_of(const std::string& file, double number) {
  if (number == 0) return Activation::relu;
  if (number == 2) return Activation::swish;
  if (number == 3) return Activation::gelu;
  fail("{}: encoder/activation is {}, expected 0 (ReLU), 2 (swish) or 3 (GELU): ours has no other", file, number);
}

bool equal_tensors(const Contents& contents, const std::string& a, const std::string& b) {
  const ImportedTensor &first = contents.tensor(a, 2), &second = contents.tensor(b, 2);
  return first.type == second.type && std::ranges::equal(first.bytes, second.bytes);
}

TiedEmbeddings ties_of(const Contents& contents) {
  const std::string source = "encoder/embeddings_0/weight", target = "decoder/embeddings/weight",
                    output = "decoder/projection/weight";
  if (!equal_tensors(contents, target, output)) return TiedEmbeddings::none;
  return equal_tensors(contents, source, target) ? TiedEmbeddings::all : TiedEmbeddings::decoder;
}

/// Takes the table of positions out, which must be sines and cosines in turn, from position 0.
Positions take_positions(Contents& contents, const std::string& side, std::int64_t width) {
  const std::string name = side + "/position_encodings/encodings";
  if (!contents.tensors.contains(name)) {
    fail("{}: {} is missing: CTranslate2 computes other positions than ours then", contents.file, name);
  }
  const std::vector<float> table = contents.tensor(name, 2).values();
  const auto first_difference = [&](const std::vector<float>& ours) {
    const std::size_t count = std::min(ours.size(), table.size());
    std::size_t i = 0;
    while (i < count && std::abs(table[i] - ours[i]) <= 1e-3F) ++i;  // f16 has 5e-4
    return i == count ? std::nullopt : std::optional(i);
  };
  contents.tensors.erase(name);
  const std::vector<float> ours = sinusoids(width, width);
  const std::optional<std::size_t> other = first_difference(ours);
  if (!other) return Positions::sinusoid;
  if (width >= 4 && !first_difference(sinusoids(width, width - 2))) return Positions::marian;
  const auto columns = static_cast<std::size_t>(width);
  fail("{}: {}[{}, {}] is {}, expected {}: positions are not sines and cosines in turn", contents.file, name,
       *other / columns, *other % columns, table[*other], ours[*other]);
}

ModelConfig take_shape(Contents& contents) {
  ModelConfig model;
  model.encoder_layers = layers_of(contents, "encoder");
  model.decoder_layers = layers_of(contents, "decoder");
  model.width = contents.tensor("encoder/embeddings_0/weight", 2).shape[1];
  model.inner = contents.tensor("encoder/layer_0/ffn/linear_0/weight", 2).shape[0];
  model.heads = static_cast<int>(contents.take("encoder/num_heads", 0));
  model.norm = contents.take("encoder/pre_norm", 1) == 1 ? NormPosition::pre : NormPosition::post;
  model.activation = activation_of(contents.file, contents.take("encoder/activation", 0));
  model.tied_embeddings = ties_of(contents);
  model.attention_bias = contents.tensors.contains("encoder/layer_0/self_attention/linear_0/bias");
  contents.require("decoder/num_heads", model.heads, 0);
  contents.require("decoder/pre_norm", model.norm == NormPosition::pre ? 1 : 0, 1);
  constexpr double relu = 0, swish = 2, gelu = 3;
  const double activation = model.activation == Activation::relu    ? relu
                            : model.activation == Activation::swish ? swish
                                                                    : gelu;
  contents.require("decoder/activation", activation, relu);
  for (const std::string side : {"encoder", "decoder"}) {
    contents.require(side + "/scale_embeddings", 1, 1);
    const Positions positions = take_positions(contents, side, model.width);
    if (side == "decoder" && positions != model.positions) {
      fail("{}: the positions of encoder and decoder differ", contents.file);
    }
    model.positions = positions;
  }
  if (contents.numbers["decoder/start_from_zero_embedding"] == 1) model.decoder_start = DecoderStart::zero;
  contents.require("decoder/start_from_zero_embedding", model.decoder_start == DecoderStart::zero ? 1 : 0, 0);
  model.output_bias = contents.tensors.contains("decoder/projection/bias");
  contents.require("encoder/embeddings_merge", 0, 0);
  // They change nothing: which attention gives alignments, and details of ALiBi, which must be off.
  for (const char* ignored : {"decoder/alignment_layer", "decoder/alignment_heads",
                              "decoder/alibi_use_positive_positions", "decoder/scale_alibi"}) {
    contents.take(ignored, 0);
  }
  for (const auto& [name, value] : contents.numbers) {
    if (value != 0) fail("{}: {} is {}, expected 0: ours has no such option", contents.file, name, value);
  }
  return model;
}

json::value read_json(const fs::path& file) {
  const Result<json::value> parsed = parse_json(read_file(file));
  if (!parsed.ok()) fail("{}: {}", file.string(), parsed.error());
  return *parsed;
}

/// Throws Failure unless config.json names the tokens that ours has. Returns the epsilon of norms.
double check_config(const fs::path& file) {
  const json::value document = read_json(file);
  if (!document.is_object()) fail("{}: expected an object", file.string());
  const json::object& config = document.get_object();
  const std::vector<std::pair<const char*, json::value>> expected = {
      {"add_source_bos", false}, {"add_source_eos", true},       {"bos_token", "<s>"},
      {"eos_token", "</s>"},     {"decoder_start_token", "<s>"}, {"unk_token", "<unk>"}};
  for (const auto& [name, value] : expected) {
    const json::value* found = config.if_contains(name);
    if (found != nullptr && *found == value) continue;
    fail("{}: {} is {}, expected {}", file.string(), name, found == nullptr ? "missing" : to_text(*found),
         to_text(value));
  }
  return get_number(config, "layer_norm_epsilon").value_or(1e-5);
}

/// The SentencePiece model, whose pieces must be those of shared_vocabulary.json.
std::string read_vocabulary(const fs::path& folder, const fs::path& given) {
  fs::path file = given;
  if (file.empty()) file = folder / "sentencepiece.model";
  if (given.empty() && !fs::exists(file)) file = folder.parent_path() / "sentencepiece.model";
  if (!fs::exists(file)) {
    throw UsageFailure(
        fmt::format("import: {} has no sentencepiece.model; expected --vocabulary FILE", folder.string()));
  }
  const fs::path target = file.parent_path() / "target.spm";
  const std::string models =
      join_models({.source = read_file(file), .target = fs::exists(target) ? read_file(target) : ""});
  const Vocabulary vocabulary = Vocabulary::from_bytes(models, file.string());
  const fs::path list = folder / "shared_vocabulary.json";
  if (!fs::exists(list)) {
    fail("{}: No such file; separate vocabularies of source and target are not supported", list.string());
  }
  const json::value document = read_json(list);
  if (!document.is_array()) fail("{}: expected an array of pieces", list.string());
  const json::array& pieces = document.get_array();
  if (std::ssize(pieces) != vocabulary.size()) {
    fail("{} has {} pieces, {} has {}", list.string(), pieces.size(), file.string(), vocabulary.size());
  }
  for (std::int32_t id = 0; id < vocabulary.size(); ++id) {
    const json::value& piece = pieces[static_cast<std::size_t>(id)];
    if (piece == json::value(vocabulary.piece(id))) continue;
    fail("{}: piece {} is {}, in {} it is {}", list.string(), id, to_text(piece), file.string(),
         to_text(json::value(vocabulary.piece(id))));
  }
  return vocabulary.bytes();
}

}  // namespace

ImportedModel read_ctranslate2(const fs::path& folder, const fs::path& vocabulary) {
  const double epsilon = check_config(folder / "config.json");
  ImportedModel imported;
  imported.vocabulary = read_vocabulary(folder, vocabulary);
  const auto file = std::make_shared<MappedFile>(folder / "model.bin");
  imported.file = file;
  Contents contents(folder / "model.bin", *file);
  imported.model = take_shape(contents);
  imported.model.norm_epsilon = epsilon;
  imported.names = ctranslate2_names(imported.model.tied_embeddings == TiedEmbeddings::none);
  imported.tensors = std::move(contents.tensors);
  return imported;
}

}  // namespace babelring
