#pragma once

#include <memory>

namespace CLI {
class App;
class FormatterBase;
}  // namespace CLI

namespace babelring {

/// Gives a program, and the commands that are added to it later, help in the form of this project: `--beam N`, its
/// range and its default behind the description, allowed words instead of types. Call it before options are added.
void set_help_form(CLI::App& app);

}  // namespace babelring
