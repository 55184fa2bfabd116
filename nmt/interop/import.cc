#include "nmt/interop/import.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/failure.h"
#include "base/files.h"
#include "base/mapped_file.h"
#include "base/names.h"
#include "nmt/checkpoint/store.h"
#include "nmt/data/vocabulary.h"
#include "nmt/interop/marian.h"
#include "nmt/model/transformer.h"
#include "nmt/parallel/device.h"

namespace babelring {
namespace {

namespace fs = std::filesystem;

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

float widened_half(std::uint16_t half) {
  const bool negative = (half & 0x8000) != 0;
  const int exponent = half >> 10 & 0x1f, fraction = half & 0x3ff;
  float value = exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                              : std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
  if (exponent == 31) value = fraction == 0 ? INFINITY : NAN;
  return negative ? -value : value;
}

/// Output bias of a piece that the other model does not have, whose row is zeros: e^-50 of the mass of a logit of 0,
/// below the precision of f32, and with label smoothing no more than 50 / pieces of the loss.
constexpr float absent_piece_bias = -50;

/// The tensors of a model of ours, taken from those of another program.
class Assembly {
 public:
  Assembly(ImportedModel& imported, std::string file) : imported_(imported), file_(std::move(file)) {}

  /// The values of a parameter: of the parts of its module one after the other; of several names for one tensor, the
  /// first that is there, which all others must equal.
  std::vector<float> take(const Parameter& parameter) {
    std::vector<float> values;
    const std::byte* whole = nullptr;  // the first tensor that is no part
    for (const ForeignName& foreign : foreign_names(parameter.name, imported_.names)) {
      const auto found = imported_.tensors.find(foreign.name);
      const bool is_part = foreign.rule->parts > 1;
      if (found == imported_.tensors.end()) {
        if (!is_part) continue;
        fail("{}: {} is missing, {}", file_, foreign.name, expected(their_shape(parameter, foreign)));
      }
      const std::vector<std::int64_t> shape = their_shape(parameter, foreign);
      check_shape(foreign, found->second, shape);
      used_.push_back(foreign.name);
      if (found->second.bytes.data() == whole) continue;  // another name of the same
      std::vector<float> theirs = found->second.values();
      if (is_transposed(parameter, foreign)) theirs = transposed(theirs, shape[0], shape[1]);
      std::vector<float> more = in_our_order(parameter, *foreign.rule, std::move(theirs));
      if (found->second.is_mapped) release_pages(found->second.bytes);
      if (whole != nullptr) {
        require_equal(foreign.name, more, values);
      } else if (values.empty()) {
        values = std::move(more);
      } else {
        values.insert(values.end(), more.begin(), more.end());
      }
      if (!is_part && whole == nullptr) whole = found->second.bytes.data();
    }
    if (values.empty()) {
      const std::vector<ForeignName> names = foreign_names(parameter.name, imported_.names);
      fail("{}: {} is missing, {}", file_, names.front().name, expected(their_shape(parameter, names.front())));
    }
    return values;
  }

  /// Throws Failure if a tensor has found no place.
  void require_all_used() {
    for (const std::string& name : used_) imported_.tensors.erase(name);
    if (imported_.tensors.empty()) return;
    const auto& [name, tensor] = *imported_.tensors.begin();
    fail("{}: {} {} has no place in our model (one of {} tensors too much)", file_, name, shape_text(tensor.shape),
         imported_.tensors.size());
  }

 private:
  std::vector<float> in_our_order(const Parameter& parameter, const ModuleRule& rule, std::vector<float> theirs) const {
    const std::int64_t columns = parameter.shape.rank() == 2 ? parameter.shape[1] : 1;
    if (imported_.sines_first && parameter.name != OutputProjectionLoss::bias_name) {
      theirs = reordered(theirs, columns, rule.stream, FeatureOrder::alternating);
    }
    const std::vector<std::int64_t>& rows = rows_of(parameter);
    if (rows.empty() || !has_row_per_piece(parameter)) return theirs;
    std::vector<float> ours;
    ours.reserve(rows.size() * static_cast<std::size_t>(columns));
    for (const std::int64_t row : rows) {
      if (row < 0) {
        ours.insert(ours.end(), static_cast<std::size_t>(columns), columns == 1 ? absent_piece_bias : 0);
      } else {
        ours.insert(ours.end(), theirs.begin() + row * columns, theirs.begin() + (row + 1) * columns);
      }
    }
    return ours;
  }
  static std::string expected(const std::vector<std::int64_t>& shape) { return "expected " + shape_text(shape); }
  bool has_source_rows(const Parameter& parameter) const {
    return parameter.name == "encoder.embedding" && !imported_.source_rows.empty();
  }
  const std::vector<std::int64_t>& rows_of(const Parameter& parameter) const {
    return has_source_rows(parameter) ? imported_.source_rows : imported_.rows;
  }
  /// Their matrix is [in, out]. Marian has tables, and its newer output projection, as ours.
  bool is_transposed(const Parameter& parameter, const ForeignName& foreign) const {
    if (!imported_.is_transposed || parameter.shape.rank() != 2) return false;
    return !has_row_per_piece(parameter) || (parameter.name == "output" && !foreign.rule->theirs.ends_with("?t"));
  }
  std::vector<std::int64_t> their_shape(const Parameter& parameter, const ForeignName& foreign) const {
    std::vector<std::int64_t> shape;
    shape.reserve(static_cast<std::size_t>(parameter.shape.rank()));
    for (int axis = 0; axis < parameter.shape.rank(); ++axis) shape.push_back(parameter.shape[axis]);
    shape.front() /= foreign.rule->parts;
    if (!rows_of(parameter).empty() && has_row_per_piece(parameter)) {
      shape.front() = has_source_rows(parameter) ? imported_.their_source_rows : imported_.their_rows;
    }
    if (is_transposed(parameter, foreign)) std::swap(shape[0], shape[1]);
    if (imported_.is_transposed && shape.size() == 1) shape.insert(shape.begin(), 1);
    return shape;
  }
  void check_shape(const ForeignName& foreign, const ImportedTensor& tensor, const std::vector<std::int64_t>& shape) {
    if (tensor.shape == shape) return;
    fail("{}: {} is {}, {}", file_, foreign.name, shape_text(tensor.shape), expected(shape));
  }
  void require_equal(const std::string& name, const std::vector<float>& found, const std::vector<float>& first) {
    if (std::memcmp(found.data(), first.data(), first.size() * sizeof(float)) == 0) return;
    fail("{}: {} differs from the table that it is tied to", file_, name);
  }

  ImportedModel& imported_;
  std::string file_;
  std::vector<std::string> used_;
};

ImportedModel read_model(const ImportOptions& options, const fs::path& scratch) {
  const fs::path& input = options.input;
  if (!fs::exists(input)) fail("import: {}: No such file or directory", input.string());
  if (is_marian(input)) {
    if (options.positions != Positions::sinusoid) {
      throw UsageFailure("--positions: a model of Marian has Marian's, without this option");
    }
    return read_marian(input, options.vocabulary, scratch);
  }
  for (const fs::path& folder : {input, input / "model"}) {
    if (!fs::is_regular_file(folder / "model.bin")) continue;
    if (options.positions != Positions::sinusoid) {
      throw UsageFailure("--positions: a model of CTranslate2 has a table of its positions");
    }
    return read_ctranslate2(folder, options.vocabulary);
  }
  if (fs::is_regular_file(input / "model.safetensors")) {
    if (!options.vocabulary.empty()) throw UsageFailure("--vocabulary: a model of Hugging Face has source.spm");
    return read_huggingface(input, options.positions);
  }
  if (fs::is_regular_file(input / "pytorch_model.bin")) {
    throw UsageFailure(
        fmt::format("import: {}: found pytorch_model.bin, a pickle, expected model.safetensors; Python makes it by "
                    "transformers.MarianMTModel.from_pretrained(FOLDER).save_pretrained(NEW, safe_serialization=True)",
                    input.string()));
  }
  throw UsageFailure(fmt::format(
      "import: {}: found neither model.bin, model.safetensors nor .npz, expected a folder for CTranslate2, of a "
      "MarianMTModel of Hugging Face or of a model of Marian, or a release of OPUS-MT (.zip)",
      input.string()));
}

/// A configuration with this model. Throws Failure if an option of the model is out of its range.
std::string checked_config(const ModelConfig& model, const std::string& name, const fs::path& input) {
  TrainConfig config;
  config.name = name;
  config.model = model;
  config.data.folder = "data";  // to be given when it is trained
  std::string yaml = config_yaml(config);
  try {
    read_config(yaml, input.string(), {});
  } catch (const ConfigError& error) {
    fail("import: {}", error.what());
  }
  return yaml;
}

}  // namespace

std::vector<float> ImportedTensor::values() const {
  std::vector<float> values(bytes.size() / (type == Type::f32 ? sizeof(float) : sizeof(std::uint16_t)));
  if (type == Type::f32) {
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  std::vector<std::uint16_t> halves(values.size());
  std::memcpy(halves.data(), bytes.data(), bytes.size());
  std::transform(halves.begin(), halves.end(), values.begin(), [&](std::uint16_t half) {
    return type == Type::f16 ? widened_half(half) : std::bit_cast<float>(static_cast<std::uint32_t>(half) << 16);
  });
  return values;
}

ModelConfig import_checkpoint(const ImportOptions& options, const fs::path& output) try {
  const fs::path target = named_folder(output);
  if (fs::exists(fs::symlink_status(target))) {
    throw UsageFailure(fmt::format("import: {} exists already", output.string()));
  }
  ImportedModel imported = read_model(options, existing_folder(target.parent_path()));
  CheckpointContent content;
  content.texts["config.yaml"] = checked_config(imported.model, target.filename().string(), options.input);
  const Vocabulary vocabulary = Vocabulary::from_bytes(imported.vocabulary, "the SentencePiece model");
  const std::unique_ptr<Backend> backend = choose_backend(DeviceChoice::cpu, 1, *make_single_communicator()).backend;
  const ParameterMemory memory = {
      .weights = [&](std::size_t bytes) { return backend->allocate(bytes, MemoryPurpose::weights); }, .gradients = {}};
  const Transformer model(imported.model, vocabulary.size(), 0, memory, DType::f32);
  Assembly assembly(imported, imported.file_name.empty() ? options.input.string() : imported.file_name);
  for (const Parameter& parameter : model.parameters().all()) {
    backend->upload(assembly.take(parameter).data(), parameter.master);
    content.weights.push_back({parameter.name, parameter.master});
  }
  assembly.require_all_used();
  content.state = {{"imported_by", options.command}};
  if (!imported.release.empty()) content.state["release"] = imported.release;
  content.texts["spm.model"] = imported.vocabulary;
  fs::create_directories(target.parent_path());
  const ScratchFolder unfinished(target.parent_path() / fmt::format(".tmp-{}", make_id('x')));
  write_checkpoint_files(content, unfinished.path());
  sync_folder(unfinished.path());
  fs::rename(unfinished.path(), target);
  sync_folder(target.parent_path());
  return imported.model;
} catch (const fs::filesystem_error& error) {
  fail("import: {}: {}", error.path1().string(), error.code().message());
}

}  // namespace babelring
