// The formats: CTranslate2, python/ctranslate2/specs/model_spec.py and transformer_spec.py, read by
// src/models/model.cc; Argos Translate, argostranslate/package.py and translate.py.
#include <fmt/format.h>
#include <unicode/locid.h>
#include <unicode/unistr.h>
#include <zip.h>

#include <algorithm>
#include <bit>
#include <boost/json/array.hpp>
#include <cmath>
#include <limits>
#include <map>
#include <memory>

#include "base/failure.h"
#include "base/files.h"
#include "base/json.h"
#include "nmt/interop/export.h"

namespace babelring {

static_assert(std::endian::native == std::endian::little, "the numbers of model.bin are little-endian");

namespace {

namespace fs = std::filesystem;

constexpr ModuleRule modules[] = {
    {"embedding", "encoder/embeddings_0"},
    {"embedding", "decoder/embeddings"},
    {"embedding", "decoder/projection"},
    {"encoder.embedding", "encoder/embeddings_0"},
    {"decoder.embedding", "decoder/embeddings"},
    {"encoder.*.attention_norm", "encoder/layer_*/self_attention/layer_norm"},
    {"encoder.*.attention.qkv", "encoder/layer_*/self_attention/linear_0"},
    {"encoder.*.attention.output", "encoder/layer_*/self_attention/linear_1"},
    {"encoder.*.feed_forward_norm", "encoder/layer_*/ffn/layer_norm"},
    {"encoder.*.feed_forward.first", "encoder/layer_*/ffn/linear_0"},
    {"encoder.*.feed_forward.second", "encoder/layer_*/ffn/linear_1"},
    {"encoder.norm", "encoder/layer_norm"},
    {"decoder.*.self_norm", "decoder/layer_*/self_attention/layer_norm"},
    {"decoder.*.self.qkv", "decoder/layer_*/self_attention/linear_0"},
    {"decoder.*.self.output", "decoder/layer_*/self_attention/linear_1"},
    {"decoder.*.cross_norm", "decoder/layer_*/attention/layer_norm"},
    {"decoder.*.cross.query", "decoder/layer_*/attention/linear_0"},
    {"decoder.*.cross.key_value", "decoder/layer_*/attention/linear_1"},
    {"decoder.*.cross.output", "decoder/layer_*/attention/linear_2"},
    {"decoder.*.feed_forward_norm", "decoder/layer_*/ffn/layer_norm"},
    {"decoder.*.feed_forward.first", "decoder/layer_*/ffn/linear_0"},
    {"decoder.*.feed_forward.second", "decoder/layer_*/ffn/linear_1"},
    {"decoder.norm", "decoder/layer_norm"},
    {"output", "decoder/projection"},
    // Last: of a model whose target and output share a table.
    {"decoder.embedding", "decoder/projection"},
};

/// Types by their number in model.bin.
enum class Type : std::uint8_t { f32 = 0, i8 = 1, i16 = 2, bf16 = 5 };

/// One variable of model.bin.
struct Variable {
  std::vector<std::uint32_t> shape;  // empty: a number
  Type type = Type::f32;
  std::string own;     // its bytes, unless they are of `mapped`
  ConstTensor mapped;  // of the checkpoint
  std::size_t bytes = 0;
};

using Variables = std::map<std::string, Variable>;  // the format sorts by name

template <class T>
std::string bytes_of(std::span<const T> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

Variable owned(std::vector<std::uint32_t> shape, Type type, std::string bytes) {
  const std::size_t size = bytes.size();
  return {.shape = std::move(shape), .type = type, .own = std::move(bytes), .mapped = {}, .bytes = size};
}

template <class T>
Variable number(Type type, T value) {
  return owned({}, type, bytes_of(std::span<const T>(&value, 1)));
}

std::vector<std::uint32_t> shape_of(const ConstTensor& tensor) {
  std::vector<std::uint32_t> shape;
  shape.reserve(static_cast<std::size_t>(tensor.shape.rank()));
  for (int axis = 0; axis < tensor.shape.rank(); ++axis) {
    shape.push_back(static_cast<std::uint32_t>(tensor.shape[axis]));
  }
  return shape;
}

std::span<const float> values_of(const ConstTensor& tensor) {
  return {tensor.as<float>(), static_cast<std::size_t>(tensor.shape.elements())};
}

Variable in_bf16(const ConstTensor& tensor) {
  const std::span<const float> values = values_of(tensor);
  const std::vector<BFloat16> rounded(values.begin(), values.end());
  release_pages(tensor);
  return owned(shape_of(tensor), Type::bf16, bytes_of(std::span<const BFloat16>(rounded)));
}

/// Adds a matrix in int8 and its scales: each row times 127 / max|row|, rounded to the nearest even; 1 for a row of
/// zeros.
void add_int8(Variables& variables, const std::string& name, const ConstTensor& matrix) {
  std::vector<std::int8_t> rounded;
  std::vector<float> scales;
  const std::span<const float> values = values_of(matrix);
  const auto columns = static_cast<std::size_t>(matrix.columns());
  for (std::size_t begin = 0; begin < values.size(); begin += columns) {
    const std::span<const float> row = values.subspan(begin, columns);
    float largest = 0;
    for (const float value : row) largest = std::max(largest, std::abs(value));
    scales.push_back(127.0F / (largest == 0 ? 127.0F : largest));
    for (const float value : row) rounded.push_back(static_cast<std::int8_t>(std::nearbyint(value * scales.back())));
  }
  release_pages(matrix);
  variables[name] = owned(shape_of(matrix), Type::i8, bytes_of(std::span<const std::int8_t>(rounded)));
  variables[name + "_scale"] =
      owned({static_cast<std::uint32_t>(scales.size())}, Type::f32, bytes_of(std::span<const float>(scales)));
}

void add_tensor(Variables& variables, const ForeignTensor& foreign, Quantization quantization) {
  const ConstTensor& tensor = foreign.tensor;
  if (tensor.shape.rank() != 2 || quantization == Quantization::float32) {
    variables[foreign.name] = {.shape = shape_of(tensor), .own = {}, .mapped = tensor, .bytes = tensor.bytes()};
  } else if (quantization == Quantization::bfloat16) {
    variables[foreign.name] = in_bf16(tensor);
  } else {
    add_int8(variables, foreign.name, tensor);
  }
}

/// Numbers that say how to compute; the positions, which the reader would compute otherwise; the attention that aligns,
/// the mean of a layer's first heads.
void add_settings(Variables& variables, const TrainConfig& config) {
  const ModelConfig& model = config.model;
  constexpr std::int8_t relu = 0, swish = 2, gelu = 3, concatenate = 0;  // 1 and 4: approximations of GELU
  const std::int8_t activation = model.activation == Activation::relu    ? relu
                                 : model.activation == Activation::swish ? swish
                                                                         : gelu;
  const auto flag = [](bool value) { return number<std::int8_t>(Type::i8, value ? 1 : 0); };
  variables["decoder/position_encodings/encodings"] =
      owned({static_cast<std::uint32_t>(exported_positions), static_cast<std::uint32_t>(model.width)}, Type::f32,
            bytes_of(std::span<const float>(sinusoids(model.width, model.position_divisor()))));
  for (const std::string side : {"encoder", "decoder"}) {
    variables[side + "/num_heads"] = number(Type::i16, static_cast<std::int16_t>(model.heads));
    variables[side + "/pre_norm"] = flag(model.norm == NormPosition::pre);
    variables[side + "/activation"] = number(Type::i8, activation);
    variables[side + "/scale_embeddings"] = flag(true);
  }
  variables["encoder/embeddings_merge"] = number(Type::i8, concatenate);
  variables["decoder/start_from_zero_embedding"] = flag(model.decoder_start == DecoderStart::zero);
  const int aligning_heads = config.training.guided_alignment > 0 ? 1 : model.heads;
  variables["decoder/alignment_layer"] =
      number(Type::i16, static_cast<std::int16_t>(alignment_layer(model.decoder_layers)));
  variables["decoder/alignment_heads"] = number(Type::i16, static_cast<std::int16_t>(aligning_heads));
}

/// model.bin, one variable after the other.
class ModelFile {
 public:
  explicit ModelFile(const std::filesystem::path& file) : file_(file) {}

  void header(std::size_t variables) {
    constexpr std::uint32_t version = 6, revision = 7;
    put(version);
    put_text("TransformerSpec");
    put(revision);
    put(static_cast<std::uint32_t>(variables));
  }
  void variable(const std::string& name, const Variable& variable) {
    if (variable.bytes > std::numeric_limits<std::uint32_t>::max()) {
      fail("export: {} has {} bytes, expected less than 4 GiB, as the format counts them in 32 bits", name,
           variable.bytes);
    }
    put_text(name);
    put(static_cast<std::uint8_t>(variable.shape.size()));
    for (const std::uint32_t extent : variable.shape) put(extent);
    put(static_cast<std::uint8_t>(variable.type));
    put(static_cast<std::uint32_t>(variable.bytes));
    if (variable.mapped.data == nullptr) {
      file_.write(variable.own.data(), variable.bytes);
    } else {
      file_.write(variable.mapped.data, variable.bytes);
      release_pages(variable.mapped);
    }
  }
  void aliases(const std::map<std::string, std::string>& targets) {
    put(static_cast<std::uint32_t>(targets.size()));
    for (const auto& [alias, target] : targets) {
      put_text(alias);
      put_text(target);
    }
  }
  void finish() { file_.commit(); }

 private:
  template <class T>
  void put(T value) {
    file_.write(&value, sizeof value);
  }
  /// The length counts the zero byte at the end.
  void put_text(const std::string& text) {
    put(static_cast<std::uint16_t>(text.size() + 1));
    file_.write(text.c_str(), text.size() + 1);
  }

  AtomicFile file_;
};

void write_model(const ExportedModel& model, Quantization quantization, const std::filesystem::path& file) {
  std::vector<ForeignTensor> tensors =
      foreign_tensors(model.weights, ctranslate2_names(model.config.model.tied_embeddings == TiedEmbeddings::none));
  std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  Variables variables;
  std::map<std::string, std::string> first_name;  // by name of ours
  std::map<std::string, std::string> aliases = {
      {"encoder/position_encodings/encodings", "decoder/position_encodings/encodings"}};
  for (const ForeignTensor& tensor : tensors) {
    const auto [first, is_new] = first_name.try_emplace(tensor.ours, tensor.name);
    if (is_new) {
      add_tensor(variables, tensor, quantization);
    } else {
      aliases[tensor.name] = first->second;
    }
  }
  add_settings(variables, model.config);
  ModelFile output(file);
  output.header(variables.size());
  for (const auto& [name, variable] : variables) output.variable(name, variable);
  output.aliases(aliases);
  output.finish();
}

/// The English name of a language by its ISO 639 code; throws UsageFailure if it has none.
std::string language_name(const std::string& code, std::string_view option) {
  icu::UnicodeString text;
  const icu::Locale language(code.c_str());
  language.getDisplayLanguage(icu::Locale::getEnglish(), text);
  std::string name;
  text.toUTF8String(name);
  const bool is_code = !code.empty() && code == language.getLanguage() && name != code;
  if (!is_code) throw UsageFailure(fmt::format("{}: found '{}', expected a language's code, such as en", option, code));
  return name;
}

std::vector<fs::path> files_below(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

struct Discard {
  void operator()(zip_t* archive) const { zip_discard(archive); }
};

}  // namespace

FormatNames ctranslate2_names(bool separate_output) {
  const std::size_t count = std::size(modules) - (separate_output ? 1 : 0);
  return {.separator = "/", .norm_gain = "gamma", .norm_bias = "beta", .modules = {modules, count}};
}

const Choices<Quantization>& quantizations() {
  static const Choices<Quantization> all = {
      {"float32", Quantization::float32}, {"bfloat16", Quantization::bfloat16}, {"int8", Quantization::int8}};
  return all;
}

void write_ctranslate2(const ExportedModel& model, Quantization quantization, const std::filesystem::path& folder) {
  write_model(model, quantization, folder / "model.bin");
  const json::object config = {{"add_source_bos", false},
                               {"add_source_eos", true},
                               {"bos_token", "<s>"},
                               {"decoder_start_token", "<s>"},
                               {"eos_token", "</s>"},
                               {"layer_norm_epsilon", model.config.model.norm_epsilon},
                               {"multi_query_attention", false},
                               {"unk_token", "<unk>"}};
  write_file_atomically(folder / "config.json", to_text(config) + "\n");
  json::array pieces;
  for (std::int32_t id = 0; id < model.vocabulary.size(); ++id) pieces.emplace_back(model.vocabulary.piece(id));
  write_file_atomically(folder / "shared_vocabulary.json", to_text(pieces) + "\n");
  const VocabularyModels models = split_models(model.vocabulary.bytes());
  write_file_atomically(folder / "sentencepiece.model", models.source);
  if (!models.target.empty()) write_file_atomically(folder / "target.spm", models.target);
}

void check_languages(const ExportOptions& options) {
  language_name(options.from, "--from");
  language_name(options.into, "--into");
  if (options.from == options.into) throw UsageFailure(fmt::format("--into: found {} again", options.into));
}

std::string argos_folder(const ExportOptions& options) {
  return fmt::format("translate-{}_{}-1_0", options.from, options.into);
}

void write_argos(const ExportedModel& model, const ExportOptions& options, const fs::path& folder) {
  fs::create_directory(folder / "model");
  write_ctranslate2(model, options.quantization, folder / "model");
  fs::rename(folder / "model" / "sentencepiece.model", folder / "sentencepiece.model");
  const json::object metadata = {{"package_version", "1.0"},  {"argos_version", "1.0"},
                                 {"from_code", options.from}, {"from_name", language_name(options.from, "--from")},
                                 {"to_code", options.into},   {"to_name", language_name(options.into, "--into")}};
  write_file_atomically(folder / "metadata.json", to_text(metadata) + "\n");
}

void write_zip(const fs::path& folder, const fs::path& root, const fs::path& file) {
  int error = 0;
  std::unique_ptr<zip_t, Discard> owner(zip_open(file.c_str(), ZIP_CREATE | ZIP_EXCL, &error));
  zip_t* const archive = owner.get();
  if (archive == nullptr) fail("export: {}: cannot create a zip archive (libzip's error {})", file.string(), error);
  const auto require = [&](bool done) {
    if (!done) fail("export: {}: {}", file.string(), zip_strerror(archive));
  };
  for (const fs::path& path : files_below(folder)) {
    const std::string name = fs::relative(path, root).string();
    zip_source_t* const source = zip_source_file(archive, path.c_str(), 0, -1);  // to the end of the file
    require(source != nullptr);
    const zip_int64_t added = zip_file_add(archive, name.c_str(), source, ZIP_FL_ENC_UTF_8);
    if (added < 0) zip_source_free(source);
    require(added >= 0);
    const auto entry = static_cast<zip_uint64_t>(added);
    require(zip_set_file_compression(archive, entry, ZIP_CM_STORE, 0) == 0);  // weights do not get smaller
    constexpr zip_uint16_t midnight = 0, first_day = 1 << 5 | 1;  // of 1980; so that the same files give the same bytes
    require(zip_file_set_dostime(archive, entry, midnight, first_day, 0) == 0);
  }
  require(zip_close(archive) == 0);  // writes it all
  static_cast<void>(owner.release());
  sync_file(file);
}

}  // namespace babelring
