#pragma once

#include <string>

#include "base/json.h"

namespace CLI {
class App;
}

namespace babelring {

/// Adds `what-if` to `nmt run`: asks the server how fast a run would be on other hosts, links and settings.
void add_what_if(CLI::App& run);

/// The server's answer as text: a table of the measured update beside predicted ones, warnings and assumptions.
std::string what_if_text(const json::object& answer);

}  // namespace babelring
