#include "cli/sweep/sweep_commands.h"

#include <CLI/CLI.hpp>

#include "base/options/usage.h"

namespace babelring {

void SweepGridChoice::declare(CLI::App& command) {
  command.add_option("grid", file, "file with name, base, ranks, set, grid and zip (YAML)")
      ->required()
      ->check(existing_file);
  command.add_flag("--strict", strict, "refuse a grid with invalid cells instead of leaving them out");
}

void add_sweep(CLI::App& app) {
  CLI::App* sweep = app.add_subcommand("sweep", "Trains every combination of settings, and compares the runs");
  sweep->require_subcommand(1);
  add_sweep_expand(*sweep);
  add_sweep_submit(*sweep);
  add_sweep_show(*sweep);
  add_sweep_stop(*sweep);
}

}  // namespace babelring
