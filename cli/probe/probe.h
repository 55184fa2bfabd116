#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/runs/screen.h"

namespace CLI {
class App;
}

namespace babelring {

/// Whether commands that compare print in colours.
enum class ProbeColour { automatic, always, never };

/// Adds the option --color.
void add_colour(CLI::App& command, ProbeColour& colour);
/// Standard output with these colours.
Screen screen_of(ProbeColour colour);

/// Adds the option --tolerance, for Tolerance::parse().
void add_tolerance(CLI::App& command, std::string& tolerance);

/// Splits a list at its commas.
std::vector<std::string> split_list(const std::string& list);

/// Adds `nmt probe` and the commands below it.
void add_probe(CLI::App& app);

void add_probe_save(CLI::App& probe);
void add_probe_print(CLI::App& probe);
void add_probe_compare(CLI::App& probe);
void add_probe_repeat(CLI::App& probe);
void add_probe_weights(CLI::App& probe);
void add_probe_backends(CLI::App& probe);

}  // namespace babelring
