#pragma once

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/files.h"
#include "nmt/interop/export.h"
#include "nmt/model/transformer.h"
#include "tests/nmt/data/temporary_folder.h"

namespace babelring {

namespace fs = std::filesystem;

inline const std::vector<std::string> lines = {"the red house", "a boat sails on the sea",
                                               "the old man sees a red boat"};

inline std::string small_vocabulary() {
  std::size_t next = 0;
  return train_vocabulary({.size = 34}, [&](std::string& line) {
    if (next == 8 * lines.size()) return false;
    line = lines[next++ % lines.size()];
    return true;
  });
}

class ExportTest : public testing::Test {
 protected:
  /// Writes a checkpoint of two encoder layers and one decoder layer with random weights.
  fs::path checkpoint(const std::string& model_options) {
    const std::string config = fmt::format(
        "data:\n  folder: nowhere\nmodel:\n  encoder_layers: 2\n  decoder_layers: 1\n  width: {}\n  heads: 2\n"
        "  inner: {}\n{}",
        width_, inner_, model_options);
    const fs::path path = folder_.path() / "checkpoint";
    fs::create_directory(path);
    write_file_atomically(folder_.path() / "spm.model", vocabulary_);
    const Vocabulary vocabulary = Vocabulary::from_bytes(vocabulary_, "test");
    model_ = std::make_unique<Transformer>(read_config(config, "test", {}).model, vocabulary.size(), 0.F, *backend_,
                                           DType::f32);
    CheckpointContent content;
    content.copies["spm.model"] = folder_.path() / "spm.model";
    content.texts["config.yaml"] = config;
    for (const Parameter& parameter : model_->parameters().all()) {
      const std::vector<float> values = initial_values(parameter, 7);
      for (std::size_t i = 0; i < values.size(); ++i) {  // gains other than 1, biases other than 0
        parameter.master.as<float>()[i] = values[i] + 0.01F * static_cast<float>(i % 7);
      }
      content.weights.push_back({parameter.name, parameter.master});
    }
    if (spoil_ != nullptr) spoil_(content);
    write_checkpoint_files(content, path);
    return path;
  }
  fs::path exported(const fs::path& checkpoint, Quantization quantization = Quantization::float32,
                    ExportFormat format = ExportFormat::ctranslate2) {
    const fs::path output = folder_.path() / std::to_string(++exports_) / "exported";
    export_checkpoint(checkpoint,
                      {.format = format, .quantization = quantization, .sources = lines, .command = "nmt export"},
                      output);
    return output;
  }
  std::vector<float> ours(const std::string& name) const {
    for (const Parameter& parameter : model_->parameters().all()) {
      if (parameter.name != name) continue;
      const auto* values = parameter.master.as<float>();
      return {values, values + parameter.shape.elements()};
    }
    ADD_FAILURE() << name;
    return {};
  }

  TemporaryFolder folder_;
  std::unique_ptr<Backend> backend_ = make_cpu_backend(1);
  std::string vocabulary_ = small_vocabulary();
  std::unique_ptr<Transformer> model_;
  void (*spoil_)(CheckpointContent&) = nullptr;
  int exports_ = 0, width_ = 8, inner_ = 12;
};

}  // namespace babelring
