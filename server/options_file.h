#pragma once

namespace CLI {
class App;
}

namespace babelring {

/// Adds `--options FILE`: a YAML file whose keys are the program's options without their dashes. An option on the
/// command line replaces that of the file. Options marked as not configurable are for the command line alone. While
/// the application parses, a wrong file makes it throw UsageFailure with the place. Call it after the options are
/// added.
void add_options_file(CLI::App& app);

}  // namespace babelring
