#pragma once

#include <memory>
#include <string>

#include "nmt/decode/translator.h"
#include "nmt/train/checkpointing/model_loader.h"

namespace CLI {
class App;
}

namespace babelring {

/// Options of every subcommand that runs a model.
struct ModelOptions {
  std::string checkpoint;
  std::string precision = "f32";
  std::string device = "auto";
  int threads = 0;
  TranslateOptions translate;

  /// Adds --checkpoint, --precision, --threads and those of beam search; they are bound to this object.
  void declare(CLI::App& command);

  /// Adds --device, for commands that may use a GPU. (The server's translations do not: it trains.)
  void declare_device(CLI::App& command);

  /// Throws Failure if the device wished for cannot be used.
  std::unique_ptr<Backend> make_backend() const;
  /// Throws Failure if there is no such checkpoint or it is damaged.
  LoadedModel load(Backend& backend) const;

 private:
  void declare_search(CLI::App& command);
};

}  // namespace babelring
