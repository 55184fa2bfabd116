// The formats: Marian 1.12, src/models/transformer.h (arithmetic and names); of Bergamot browsermt/marian-dev,
// src/common/binary.cpp and ExpressionGraphPackable::packAndSave.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <map>
#include <optional>

#include "base/failure.h"
#include "base/files.h"
#include "nmt/interop/marian.h"
#include "nmt/interop/npz.h"

namespace babelring {

static_assert(std::endian::native == std::endian::little, "the numbers of both files are little-endian");

namespace {

namespace fs = std::filesystem;

constexpr ModuleRule npz_modules[] = {
    {"embedding", "?emb"},
    {"encoder.embedding", "encoder_?emb"},
    {"decoder.embedding", "decoder_?emb"},
    {"encoder.*.attention.qkv", "encoder_l*_self_?q", StreamAxis::columns, 0, 3},
    {"encoder.*.attention.qkv", "encoder_l*_self_?k", StreamAxis::columns, 1, 3},
    {"encoder.*.attention.qkv", "encoder_l*_self_?v", StreamAxis::columns, 2, 3},
    {"encoder.*.attention.output", "encoder_l*_self_?o", StreamAxis::rows},
    {"encoder.*.attention_norm", "encoder_l*_self_Wo_ln_?", StreamAxis::rows},
    {"encoder.*.feed_forward.first", "encoder_l*_ffn_?1"},
    {"encoder.*.feed_forward.second", "encoder_l*_ffn_?2", StreamAxis::rows},
    {"encoder.*.feed_forward_norm", "encoder_l*_ffn_ffn_ln_?", StreamAxis::rows},
    {"decoder.*.self.qkv", "decoder_l*_self_?q", StreamAxis::columns, 0, 3},
    {"decoder.*.self.qkv", "decoder_l*_self_?k", StreamAxis::columns, 1, 3},
    {"decoder.*.self.qkv", "decoder_l*_self_?v", StreamAxis::columns, 2, 3},
    {"decoder.*.self.output", "decoder_l*_self_?o", StreamAxis::rows},
    {"decoder.*.self_norm", "decoder_l*_self_Wo_ln_?", StreamAxis::rows},
    {"decoder.*.cross.query", "decoder_l*_context_?q"},
    {"decoder.*.cross.key_value", "decoder_l*_context_?k", StreamAxis::columns, 0, 2},
    {"decoder.*.cross.key_value", "decoder_l*_context_?v", StreamAxis::columns, 1, 2},
    {"decoder.*.cross.output", "decoder_l*_context_?o", StreamAxis::rows},
    {"decoder.*.cross_norm", "decoder_l*_context_Wo_ln_?", StreamAxis::rows},
    {"decoder.*.feed_forward.first", "decoder_l*_ffn_?1"},
    {"decoder.*.feed_forward.second", "decoder_l*_ffn_?2", StreamAxis::rows},
    {"decoder.*.feed_forward_norm", "decoder_l*_ffn_ffn_ln_?", StreamAxis::rows},
    {"output", "decoder_ff_logit_out_?"},
    {"output", "decoder_ff_logit_out_?t"},
};

}  // namespace

constexpr FormatNames npz_names = {.separator = "",
                                   .norm_gain = "scale",
                                   .norm_bias = "bias",
                                   .weight = "W",
                                   .bias = "b",
                                   .first_layer = 1,
                                   .modules = npz_modules};

namespace {

// Names of the output projection: [pieces, width] as ours in newer models, [width, pieces] in older ones and in 8 bits.
constexpr const char *newer_output = "decoder_ff_logit_out_Wt", *older_output = "decoder_ff_logit_out_W";

/// A tensor as Marian names and shapes it: vectors have one row, matrices but embeddings are [in, out].
struct MarianTensor {
  std::int64_t rows = 1, columns = 0;
  bool is_transposed = false;  // `values` are [columns, rows]
  std::function<std::vector<float>()> values;

  bool is_matrix() const { return rows > 1; }
  std::int64_t elements() const { return rows * columns; }
};

using MarianTensors = std::map<std::string, MarianTensor>;  // both formats sort by name

/// All tensors of a model, whose tables have `pieces` rows: those behind the vocabulary are zeros and never chosen.
/// `model` must outlive the result.
MarianTensors marian_tensors(const ExportedModel& model, std::int64_t pieces) {
  MarianTensors tensors;
  for (const ForeignTensor& foreign : foreign_tensors(model.weights, npz_names)) {
    if (foreign.ours == "output.bias") continue;
    const Shape& shape = foreign.tensor.shape;
    const bool is_vector = shape.rank() == 1, is_linear = foreign.ours.ends_with(".weight");
    const bool is_table = !is_vector && !is_linear, is_transposed = is_linear || foreign.name == older_output;
    const std::int64_t columns = is_vector ? shape[0] : shape[1];
    const std::int64_t rows = is_vector ? 1 : is_table ? pieces : shape[0];
    const auto values = [tensor = foreign.tensor, stream = foreign.rule->stream, size = rows * columns] {
      std::vector<float> result = reordered(tensor, stream);
      result.resize(static_cast<std::size_t>(size));
      return result;
    };
    tensors[foreign.name] = {is_transposed ? columns : rows, is_transposed ? rows : columns, is_transposed, values};
    if (!is_linear) continue;
    // A Linear without a bias has one of zeros, unless its own replaces it.
    std::string bias = foreign.name;
    bias[bias.rfind('W')] = 'b';
    tensors.try_emplace(bias, MarianTensor{.columns = rows, .values = [rows] {
                                             return std::vector<float>(static_cast<std::size_t>(rows));
                                           }});
  }
  tensors[std::string(output_bias_name)] = {.columns = pieces, .values = [&model, pieces] {
                                              std::vector<float> bias = padded_output_bias(model);
                                              bias.resize(static_cast<std::size_t>(pieces), never_chosen);
                                              return bias;
                                            }};
  return tensors;
}

/// Adds NAME_QuantMultA for the input x of each matmul with the matrix NAME, the factor that brings x to 8 bits: 127 /
/// (mean + 1.1 sigma) of the max|x| of its matmuls (Bergamot's scripts/alphas/extract_stats.py). The table of the
/// output projection is called `none` where a shortlist chooses rows.
void add_input_factors(const ExportedModel& model, MarianTensors& tensors) {
  for (const ForeignTensor& foreign : foreign_tensors(model.weights, npz_names)) {
    const auto found = model.inputs.find(foreign.ours);
    if (found == model.inputs.end() || !tensors.contains(foreign.name)) continue;
    double sum = 0, squares = 0;
    for (const float largest : found->second) {
      sum += largest;
      squares += static_cast<double>(largest) * largest;
    }
    const auto count = static_cast<double>(found->second.size());
    const double mean = sum / count, sigma = std::sqrt(std::max(0.0, squares / count - mean * mean));
    const auto factor = static_cast<float>(127 / (mean + 1.1 * sigma));
    const auto add = [&](const std::string& name) {
      tensors[name + "_QuantMultA"] = {.columns = 1, .values = [factor] { return std::vector<float>{factor}; }};
    };
    add(foreign.name);
    if (!foreign.ours.ends_with(".weight")) add("none");
  }
}

/// The options of a model, which both files have inside.
std::string model_options(const ModelConfig& model, std::int64_t pieces) {
  const bool all_tied = model.tied_embeddings == TiedEmbeddings::all;
  return fmt::format(
      "type: transformer\ndim-vocabs:\n  - {0}\n  - {0}\ndim-emb: {1}\nenc-depth: {2}\ndec-depth: {3}\n"
      "transformer-heads: {4}\ntransformer-dim-ffn: {5}\ntransformer-ffn-activation: {6}\n"
      "tied-embeddings-all: {7}\ntied-embeddings: {8}\ntied-embeddings-src: false\n"
      "transformer-preprocess: \"\"\ntransformer-postprocess: dan\ntransformer-postprocess-emb: d\n"
      "transformer-postprocess-top: \"\"\ntransformer-ffn-depth: 2\ntransformer-no-projection: false\n"
      "transformer-decoder-autoreg: self-attention\ntransformer-train-positions: false\n"
      "transformer-tied-layers:\n  []\ntransformer-aan-depth: 2\ntransformer-aan-nogate: false\n"
      "dec-cell-base-depth: 2\ndec-cell-high-depth: 1\nlayer-normalization: false\nright-left: false\nskip: false\n"
      "ulr: false\nulr-dim-emb: 0\nlemma-dim-emb: 0\ninput-types:\n  []\n",
      pieces, model.width, model.encoder_layers, model.decoder_layers, model.heads, model.inner,
      name_of(model.activation), all_tied, model.tied_embeddings == TiedEmbeddings::decoder);
}

/// model.npz with the arrays in this order, of which one is the options.
void write_npz(const MarianTensors& tensors, const std::vector<std::string>& order, const std::string& options,
               const fs::path& file) {
  AtomicFile output(file);
  NpzWriter npz(output);
  for (const std::string& name : order) {
    if (name == options_name) {
      npz.add(name, "<i1", {std::ssize(options)}, std::as_bytes(std::span(options)));
      continue;
    }
    const MarianTensor& tensor = tensors.at(name);
    std::vector<float> values = tensor.values();
    if (tensor.is_transposed) values = transposed(values, tensor.columns, tensor.rows);
    npz.add(name, "<f4", {tensor.rows, tensor.columns}, std::as_bytes(std::span(values)));
  }
  npz.finish();
  output.commit();
}

/// Types by their number in model.bin; intgemm8 is another number in the files of Marian itself.
enum class BinaryType : std::uint64_t { i8 = 0x101, f32 = 0x404, intgemm8 = 0x4101 };

/// Data in model.bin begin at multiples of this.
constexpr std::uint64_t alignment = 256;

std::uint64_t aligned(std::uint64_t bytes) {
  return (bytes + alignment - 1) / alignment * alignment;
}

/// A matrix in 8 bits, rounded to the nearest even, and behind it the f32 factor, 127 / max|matrix|.
std::string in_intgemm8(const std::vector<float>& values) {
  float largest = 0;
  for (const float value : values) largest = std::max(largest, std::abs(value));
  const float factor = 127.0F / (largest == 0 ? 127.0F : largest);
  std::string bytes;
  bytes.reserve(values.size() + sizeof factor);
  for (const float value : values) {
    bytes.push_back(static_cast<char>(static_cast<std::int8_t>(std::nearbyint(value * factor))));
  }
  return bytes.append(reinterpret_cast<const char*>(&factor), sizeof factor);
}

/// model.bin: the count of tensors, a header for each, their names, their shapes, and their data. A matrix in 8 bits is
/// stored transposed with the shape of the matrix, which are our rows; embeddings are stored as they are.
void write_binary(const MarianTensors& tensors, const std::string& options, const fs::path& file) {
  AtomicFile output(file);
  std::uint64_t position = 0;
  const auto put = [&](const void* data, std::size_t bytes) {
    output.write(data, bytes);
    position += bytes;
  };
  const auto put_numbers = [&]<class T>(std::initializer_list<T> numbers) {
    put(std::data(numbers), numbers.size() * sizeof(T));
  };
  constexpr std::uint64_t version = 1;
  put_numbers({version, std::uint64_t{tensors.size() + 1}});
  for (const auto& [name, tensor] : tensors) {
    const auto size = static_cast<std::uint64_t>(tensor.elements());
    const std::uint64_t bytes = tensor.is_matrix() ? size + sizeof(float) : size * sizeof(float);
    const BinaryType type = tensor.is_matrix() ? BinaryType::intgemm8 : BinaryType::f32;
    put_numbers({std::uint64_t{name.size() + 1}, static_cast<std::uint64_t>(type), std::uint64_t{2}, aligned(bytes)});
  }
  const std::size_t options_size = options.size() + 1;  // with a zero byte
  put_numbers({std::uint64_t{options_name.size() + 1}, static_cast<std::uint64_t>(BinaryType::i8), std::uint64_t{1},
               aligned(options_size)});
  for (const auto& [name, tensor] : tensors) put(name.c_str(), name.size() + 1);
  put(options_name.data(), options_name.size());
  put("", 1);
  for (const auto& [name, tensor] : tensors) {
    put_numbers({static_cast<std::int32_t>(tensor.rows), static_cast<std::int32_t>(tensor.columns)});
  }
  put_numbers({static_cast<std::int32_t>(options_size)});
  const std::uint64_t padding = aligned(position + sizeof(std::uint64_t)) - position - sizeof(std::uint64_t);
  put_numbers({padding});
  const auto align = [&] { put(std::array<char, alignment>{}.data(), aligned(position) - position); };
  align();
  for (const auto& [name, tensor] : tensors) {
    const std::vector<float> values = tensor.values();
    if (tensor.is_matrix()) {
      const std::string bytes = in_intgemm8(values);
      put(bytes.data(), bytes.size());
    } else {
      put(values.data(), values.size() * sizeof(float));
    }
    align();
  }
  put(options.c_str(), options_size);
  align();
  output.commit();
}

/// Writes the SentencePiece models of both sides. Returns their list for a file of options.
std::string write_vocabularies(const Vocabulary& vocabulary, const fs::path& folder) {
  const VocabularyModels models = split_models(vocabulary.bytes());
  const bool is_one = models.target.empty();
  write_file_atomically(folder / (is_one ? "vocab.spm" : "source.spm"), models.source);
  if (is_one) return "vocabs:\n  - vocab.spm\n  - vocab.spm\n";
  write_file_atomically(folder / "target.spm", models.target);
  return "vocabs:\n  - source.spm\n  - target.spm\n";
}

/// The row of ours for each row of theirs; none if a row is absent or there twice.
std::optional<std::vector<std::int64_t>> inverse(const std::vector<std::int64_t>& rows) {
  const std::int64_t theirs = std::ranges::count_if(rows, [](std::int64_t row) { return row >= 0; });
  std::vector<std::int64_t> ours(static_cast<std::size_t>(theirs), -1);
  for (std::size_t row = 0; row < rows.size(); ++row) {
    if (rows[row] < 0) continue;
    if (rows[row] >= theirs || ours[static_cast<std::size_t>(rows[row])] >= 0) return std::nullopt;
    ours[static_cast<std::size_t>(rows[row])] = static_cast<std::int64_t>(row);
  }
  return ours;
}

/// Gives a table, an output projection or its bias the rows of the model as it was imported.
void restore_rows(MarianTensor& tensor, const std::vector<std::int64_t>& rows) {
  const std::int64_t columns = tensor.rows == 1 ? 1 : tensor.is_transposed ? tensor.rows : tensor.columns;
  (tensor.rows == 1 || tensor.is_transposed ? tensor.columns : tensor.rows) = std::ssize(rows);
  tensor.values = [values = tensor.values, rows, columns] {
    const std::vector<float> ours = values();
    std::vector<float> theirs;
    theirs.reserve(rows.size() * static_cast<std::size_t>(columns));
    for (const std::int64_t row : rows) {
      theirs.insert(theirs.end(), ours.begin() + row * columns, ours.begin() + (row + 1) * columns);
    }
    return theirs;
  };
}

/// The model as it was imported, if it is still of the same shape and has the same vocabulary.
std::optional<MarianOrigin> origin_for(const ExportedModel& model) try {
  std::optional<MarianOrigin> origin = MarianOrigin::unpack(split_models(model.vocabulary.bytes()).origin);
  const auto pieces = static_cast<std::size_t>(model.vocabulary.size());
  if (!origin || origin->rows.size() != pieces || origin->vocabularies.size() != 2) return std::nullopt;
  if (!origin->source_rows.empty() && origin->source_rows.size() != pieces) return std::nullopt;
  const ModelConfig before = model_of_options(YamlOptions(origin->options, std::string(options_name)));
  if (model_options(before, 0) != model_options(model.config.model, 0)) return std::nullopt;
  return origin;
} catch (const Failure&) {
  return std::nullopt;  // options that a later version has written
}

/// Gives the tensors the rows of the origin. Returns false if they are not those of the origin.
bool restore(const MarianOrigin& origin, MarianTensors& tensors) {
  const auto rows = inverse(origin.rows), source_rows = inverse(origin.source_rows);
  if (!rows || !source_rows) return false;
  for (const char* name :
       {"Wemb", "encoder_Wemb", "decoder_Wemb", newer_output, older_output, "decoder_ff_logit_out_b"}) {
    const auto found = tensors.find(name);
    if (found == tensors.end()) continue;
    const bool is_of_source = name == std::string_view("encoder_Wemb") && !source_rows->empty();
    restore_rows(found->second, is_of_source ? *source_rows : *rows);
  }
  std::vector<std::string> names = origin.arrays, ours = {std::string(options_name)};
  for (const auto& [name, tensor] : tensors) ours.push_back(name);
  std::ranges::sort(names);
  std::ranges::sort(ours);
  return names == ours;
}

std::string decoder_options(const std::string& model, const std::string& vocabularies) {
  return fmt::format(
      "relative-paths: true\nmodels:\n  - {}\n{}beam-size: 4\nnormalize: 0\nword-penalty: 0\nallow-unk: true\n"
      "mini-batch: 16\nmaxi-batch: 100\nmaxi-batch-sort: src\n",
      model, vocabularies);
}

/// Writes the model with the names, the order and the files that it was imported with. Returns false if it is another.
bool write_as_imported(const ExportedModel& model, const fs::path& folder) {
  const std::optional<MarianOrigin> origin = origin_for(model);
  if (!origin) return false;
  MarianTensors tensors = marian_tensors(model, model.vocabulary.size());
  tensors.erase(std::ranges::find(origin->arrays, newer_output) == origin->arrays.end() ? newer_output : older_output);
  if (!restore(*origin, tensors)) return false;
  write_npz(tensors, origin->arrays, origin->options, folder / origin->model);
  for (const auto& [name, content] : origin->files) write_file_atomically(folder / name, content);
  const std::vector<std::string>& names = origin->vocabularies;
  const std::string list = fmt::format("vocabs:\n  - {}\n  - {}\n", names[0], names[1]);
  write_file_atomically(folder / "decoder.yml", decoder_options(origin->model, list));
  return true;
}

}  // namespace

std::vector<float> transposed(const std::vector<float>& values, std::int64_t rows, std::int64_t columns) {
  std::vector<float> result(values.size());
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      result[static_cast<std::size_t>(column * rows + row)] = values[static_cast<std::size_t>(row * columns + column)];
    }
  }
  return result;
}

void write_marian(const ExportedModel& model, const fs::path& folder) {
  const ModelConfig& config = model.config.model;
  if (write_as_imported(model, folder)) return;
  const std::int64_t pieces = model.vocabulary.size();
  MarianTensors tensors = marian_tensors(model, pieces);
  tensors.erase(older_output);
  std::vector<std::string> order;
  for (const auto& [name, tensor] : tensors) order.push_back(name);
  order.emplace_back(options_name);
  write_npz(tensors, order, model_options(config, pieces) + '\0', folder / "model.npz");
  write_file_atomically(folder / "decoder.yml",
                        decoder_options("model.npz", write_vocabularies(model.vocabulary, folder)));
}

void write_bergamot(const ExportedModel& model, const fs::path& folder) {
  const ModelConfig& config = model.config.model;
  constexpr std::int64_t rows = 8;  // of intgemm's tiles
  const std::int64_t pieces = (model.vocabulary.size() + rows - 1) / rows * rows;
  MarianTensors tensors = marian_tensors(model, pieces);
  tensors.erase(newer_output);
  add_input_factors(model, tensors);
  write_binary(tensors, model_options(config, pieces), folder / "model.bin");
  write_file_atomically(folder / "config.yml",
                        "relative-paths: true\nmodels:\n  - model.bin\n" +
                            write_vocabularies(model.vocabulary, folder) +
                            "beam-size: 1\nnormalize: 1.0\nword-penalty: 0\nallow-unk: true\nskip-cost: true\n"
                            "alignment: soft\ncpu-threads: 0\nmax-length-break: 128\nmax-length-factor: 2.0\n"
                            "mini-batch-words: 1024\nworkspace: 128\ngemm-precision: int8shiftAll\n");
}

}  // namespace babelring
