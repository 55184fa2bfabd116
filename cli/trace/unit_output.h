#pragma once

#include <vector>

#include "lab/parameters/units.h"

namespace babelring {

/// Print units of a window to standard output, in the order given.
void print_json(const ParameterWindow& window, const std::vector<UnitCount>& counts);
void print_csv(const std::vector<UnitCount>& counts);
/// Prints two lines about the whole window first.
void print_table(const ParameterWindow& window, const std::vector<UnitCount>& counts);

}  // namespace babelring
