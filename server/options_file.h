#pragma once

namespace CLI {
class App;
}

namespace babelring {

/// Adds `--options FILE`, a YAML file of the program's options. Keys are option names without dashes. The command line
/// overrides the file. Options marked as not configurable are rejected in the file. Call this after all other options
/// have been added. If the file is invalid, app.parse() throws UsageFailure with file, line and column.
void add_options_file(CLI::App& app);

}  // namespace babelring
