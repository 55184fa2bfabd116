#include "cli/gssm/gssm_commands.h"

#include <CLI/CLI.hpp>

#include "base/atomic_file.h"
#include "base/options/usage.h"

namespace babelring {

void GssmChoice::declare(CLI::App& command) {
  command.add_option("--config", file, "configuration with the generator's nodes")->required()->check(existing_file);
  command.add_option("overrides", overrides, "key=value overrides, such as gssm.nodes.2.alpha=0.1");
  command.add_flag("--json", json, "print one JSON object");
}

TrainConfig GssmChoice::read_task() const {
  return read_gssm_task(read_file(file), file, overrides);
}

GssmConfig GssmChoice::read() const {
  const TrainConfig config = read_task();
  return {.gssm = config.gssm, .sequence_length = config.data.sequence_length, .seed = config.training.seed};
}

void add_gssm(CLI::App& app) {
  CLI::App* gssm = app.add_subcommand("gssm", "Generates synthetic sequences with known entropy, and measures them");
  gssm->require_subcommand(1);
  add_gssm_show(*gssm);
  add_gssm_difficulty(*gssm);
  add_gssm_data(*gssm);
  add_gssm_sample(*gssm);
}

}  // namespace babelring
