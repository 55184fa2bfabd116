#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace babelring {

/// One line that explains why `arguments` (without the program name) did not parse: the first unknown subcommand or
/// option and the nearest known name, otherwise the parser's message `error`.
std::string explain(const CLI::App& app, const std::vector<std::string>& arguments, const std::string& error);

/// Validator for CLI11's check(): "" if `path` is an existing file, otherwise an error such as "nope: no such file".
std::string existing_file(const std::string& path);
/// Validator for CLI11's check(): "" if `path` is a folder or does not exist, otherwise "x.txt is a file, expected a
/// folder".
std::string folder_or_nothing(const std::string& path);
/// Validator for CLI11's check(): "" if `number` is a number above 0, otherwise "found 0, expected a number above 0".
std::string positive_number(const std::string& number);

}  // namespace babelring
