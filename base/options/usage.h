#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace babelring {

/// Parses the command line of a program. In every option that takes a number, the number is decimal, finite, and within
/// the range that --help says. Commands run in it. False if the program has answered the user, with --help or
/// --version, and has no more to do. Throws UsageFailure, with the line of explain(), if the command line is wrong.
bool parse_command_line(CLI::App& app, int argc, char** argv);

/// One line that explains why `arguments` (without the program name) did not parse: the first unknown subcommand or
/// option and the nearest known name, otherwise the parser's message `error`.
std::string explain(const CLI::App& app, const std::vector<std::string>& arguments, const std::string& error);

/// The paths without those that lead to the same file or folder as an earlier one, as a shell's list may; a line of the
/// log names each. `option` is named in the line.
std::vector<std::filesystem::path> without_repeats(const std::vector<std::filesystem::path>& paths,
                                                   std::string_view option);

/// Validator for CLI11's check(): "" if `path` is an existing file, otherwise an error such as "nope: no such file".
std::string existing_file(const std::string& path);
/// Validator for CLI11's check(): "" if `path` is a folder or does not exist, otherwise "x.txt is a file, expected a
/// folder".
std::string folder_or_nothing(const std::string& path);
/// Validator for CLI11's check(): "" if `number` is a number above 0, otherwise "found 0, expected a number above 0".
std::string positive_number(const std::string& number);

}  // namespace babelring
