#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/choices.h"

namespace CLI {
class App;
}

namespace babelring {

/// Sets the project's --help format for a program and its subcommands: `--beam N`, then the description, the range and
/// the default; allowed words in place of a type name. Call before adding options or subcommands.
void set_help_form(CLI::App& app);

/// The name by which the user called `program`, for its help, manual page and completions: installations link
/// `babelring-server` to `server`, which is too general a name for a folder that other software shares. `argument_zero`
/// is argv[0]; a name other than these two counts as `program`.
std::string name_called(const char* argument_zero, std::string_view program);

/// Ends the parsing of the command line from the callback of an option: the program prints `text`, which ends with a
/// newline, and exits with 0, as for --version.
[[noreturn]] void print_and_exit(std::string text);

/// Adds an option that accepts one of `words` and passes its index to `set`.
void add_word_option(CLI::App& app, const std::string& name, const std::vector<std::string>& words,
                     const std::string& default_word, const std::function<void(std::size_t index)>& set,
                     const std::string& help);

/// Adds an option for an enum, which keeps its value as default. `member` must outlive `app`.
template <class Enum>
void add_choice(CLI::App& app, const std::string& name, Enum& member,
                const Choices<std::type_identity_t<Enum>>& choices, const std::string& help) {
  add_word_option(
      app, name, words_of(choices), word_of(choices, member),
      [&member, choices](std::size_t index) { member = choices[index].second; }, help);
}

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
