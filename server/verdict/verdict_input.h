#pragma once

#include <string>
#include <string_view>

#include "insight/verdict/input.h"
#include "server/store/runs.h"

namespace babelring::verdict {

/// Reads the input of the verdict: the newest steps of all ranks of the current attempt, its pauses, and facts from the
/// configuration. Reads a bounded number of rows for a run of any length. Throws SqlFailure.
Input read_input(store::Reader& reader, const store::RunRow& run);

/// The scalar at a dotted key in a configuration written by dump_yaml(): one key per line, two spaces per level. Empty
/// if absent. Does not understand other YAML.
std::string config_scalar(std::string_view yaml, std::string_view dotted_key);

/// The number at the start of a text; 0 if there is none.
double number_in(const std::string& text);

}  // namespace babelring::verdict
