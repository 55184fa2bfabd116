#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace babelring {

/// One line on why `arguments` (without the program's name) could not be read: the first unknown subcommand or option
/// with the nearest known one, or else `error`, what the parser says.
std::string explain(const CLI::App& app, const std::vector<std::string>& arguments, const std::string& error);

}  // namespace babelring
