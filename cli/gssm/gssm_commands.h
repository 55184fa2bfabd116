#pragma once

#include <string>
#include <vector>

#include "nmt/data/gssm/config.h"
#include "nmt/train/setup/config.h"

namespace CLI {
class App;
}

namespace babelring {

/// GSSM: graph-structured state-space model, which generates sequences of known entropy (docs/lab/sequences.md).
/// The options --config, key=value and --json, of the commands below `nmt gssm`.
struct GssmChoice {
  std::string file;
  std::vector<std::string> overrides;
  bool json = false;

  void declare(CLI::App& command);
  /// Reads the configuration of a training, or of a generator alone. Throws ConfigError.
  TrainConfig read_training() const;
  /// The generator of that configuration.
  GssmConfig read_generator() const;
};

/// Adds `nmt gssm` and the commands below it.
void add_gssm(CLI::App& app);

void add_gssm_show(CLI::App& gssm);
void add_gssm_difficulty(CLI::App& gssm);
void add_gssm_data(CLI::App& gssm);
void add_gssm_sample(CLI::App& gssm);

}  // namespace babelring
