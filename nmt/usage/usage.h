#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace babelring {

/// One line on why `arguments` (without the program's name) could not be parsed: the first unknown subcommand or
/// option, with the nearest known one, or else the parser's own message `error`.
std::string explain(const CLI::App& app, const std::vector<std::string>& arguments, const std::string& error);

}  // namespace babelring
