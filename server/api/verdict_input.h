#pragma once

#include <string>
#include <string_view>

#include "server/store/queries.h"
#include "server/verdict/verdict.h"

namespace babelring::api {

/// What the verdict judges: the newest steps of all ranks of the current attempt, the pauses in it and what the
/// configuration says. Reads a bounded number of rows whatever the length of the run. Throws SqlFailure.
verdict::Input verdict_input(store::Reader& reader, const store::RunRow& run);

/// The scalar of a dotted key in a configuration as dump_yaml() writes it: one key a line, two spaces a level. Empty
/// if it is not there; other YAML is not understood, and need not be.
std::string config_scalar(std::string_view yaml, std::string_view dotted_key);

/// The number that a text begins with; 0 where it begins with none.
double number_in(const std::string& text);

}  // namespace babelring::api
