#include "cli/emulate/emulate.h"

#include <CLI/CLI.hpp>

namespace babelring {

void add_emulate(CLI::App& app) {
  CLI::App* emulate = app.add_subcommand("emulate", "Predicts the speed of runs from the times of one rank");
  emulate->require_subcommand(1);
  add_emulate_record(*emulate);
  add_emulate_run(*emulate);
  add_emulate_scale(*emulate);
  add_emulate_gpus(*emulate);
  add_emulate_stalls(*emulate);
  add_emulate_link(*emulate);
  add_emulate_compare(*emulate);
}

}  // namespace babelring
