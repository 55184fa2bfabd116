#pragma once

#include <memory>
#include <string>

namespace CLI {
class App;
}

namespace babelring {

/// The grid that a command reads.
struct SweepGridChoice {
  std::string file;
  bool strict = false;

  /// Adds the argument `grid` and --strict. They are bound to this object, which must outlive `command`.
  void declare(CLI::App& command);
};

/// Adds `nmt sweep` with the subcommands expand, submit, show and stop.
void add_sweep(CLI::App& app);

void add_sweep_expand(CLI::App& sweep);
void add_sweep_submit(CLI::App& sweep);
void add_sweep_show(CLI::App& sweep);
void add_sweep_stop(CLI::App& sweep);

}  // namespace babelring
