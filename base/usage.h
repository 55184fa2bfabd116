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

/// For CLI11's check(): "" if `path` is a file that exists, else what is wrong with it: "nope: no such file".
std::string existing_file(const std::string& path);
/// Likewise "" if `path` is a folder or nothing yet, else "x.txt is a file, expected a folder".
std::string folder_or_nothing(const std::string& path);

}  // namespace babelring
