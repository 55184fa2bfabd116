#include "nmt/interop/import.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/failure.h"
#include "base/files.h"
#include "base/names.h"
#include "nmt/checkpoint/store.h"
#include "nmt/data/vocabulary.h"
#include "nmt/model/transformer.h"
#include "nmt/parallel/device.h"

namespace babelring {
namespace {

namespace fs = std::filesystem;

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

/// The tensors of a model of ours, taken from those of another program.
class Assembly {
 public:
  Assembly(ImportedModel& imported, std::string file) : imported_(imported), file_(std::move(file)) {}

  /// The values of a parameter: of the parts of its module one after the other; of several names for one tensor, the
  /// first that is there, which all others must equal.
  std::vector<float> take(const Parameter& parameter) {
    std::vector<float> values;
    bool is_whole = false;
    for (const ForeignName& foreign : foreign_names(parameter.name, imported_.names)) {
      const auto found = imported_.tensors.find(foreign.name);
      const bool is_part = foreign.rule->parts > 1;
      if (found == imported_.tensors.end()) {
        if (!is_part) continue;
        fail("{}: {} is missing, {}", file_, foreign.name, expected(part_shape(parameter, foreign)));
      }
      check_shape(foreign, found->second, part_shape(parameter, foreign));
      if (is_whole && !is_part) {
        require_equal(foreign.name, found->second.values, values);
      } else {
        values.insert(values.end(), found->second.values.begin(), found->second.values.end());
      }
      is_whole = !is_part;
      used_.push_back(foreign.name);
    }
    if (values.empty()) {
      const std::vector<ForeignName> names = foreign_names(parameter.name, imported_.names);
      fail("{}: {} is missing, {}", file_, names.front().name, expected(part_shape(parameter, names.front())));
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
  static std::string expected(const std::vector<std::int64_t>& shape) { return "expected " + shape_text(shape); }
  static std::vector<std::int64_t> part_shape(const Parameter& parameter, const ForeignName& foreign) {
    std::vector<std::int64_t> shape;
    for (int axis = 0; axis < parameter.shape.rank(); ++axis) shape.push_back(parameter.shape[axis]);
    shape.front() /= foreign.rule->parts;
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

ImportedModel read_model(const ImportOptions& options) {
  const fs::path& input = options.input;
  if (!fs::exists(input)) fail("import: {}: No such file or directory", input.string());
  if (fs::is_regular_file(input / "model.bin")) return read_ctranslate2(input, options.vocabulary);
  if (fs::is_regular_file(input / "model" / "model.bin")) return read_ctranslate2(input / "model", options.vocabulary);
  throw UsageFailure(fmt::format("import: {}: found no model.bin, expected a folder for CTranslate2", input.string()));
}

}  // namespace

ModelConfig import_checkpoint(const ImportOptions& options, const fs::path& output) try {
  const fs::path target = named_folder(output);
  if (fs::exists(fs::symlink_status(target))) {
    throw UsageFailure(fmt::format("import: {} exists already", output.string()));
  }
  ImportedModel imported = read_model(options);
  const Vocabulary vocabulary = Vocabulary::from_bytes(imported.vocabulary, "the SentencePiece model");
  const std::unique_ptr<Backend> backend = choose_backend(DeviceChoice::cpu, 1, *make_single_communicator()).backend;
  Transformer model(imported.model, vocabulary.size(), 0, *backend, DType::f32);
  Assembly assembly(imported, options.input.string());
  CheckpointContent content;
  for (const Parameter& parameter : model.parameters().all()) {
    backend->upload(assembly.take(parameter).data(), parameter.master);
    content.weights.push_back({parameter.name, parameter.master});
  }
  assembly.require_all_used();
  TrainConfig config;
  config.name = target.filename().string();
  config.model = imported.model;
  config.data.folder = "data";  // to be given when it is trained
  content.texts["config.yaml"] = config_yaml(config);
  content.state = {{"imported_by", options.command}};
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
