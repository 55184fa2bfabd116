#pragma once

#include <memory>

namespace CLI {
class App;
class FormatterBase;
}  // namespace CLI

namespace babelring {

/// Sets the project's --help format for a program and its subcommands: `--beam N`, then the description, the range and
/// the default; allowed words in place of a type name. Call before adding options or subcommands.
void set_help_form(CLI::App& app);

}  // namespace babelring
