#pragma once

#include <string>

namespace CLI {
class App;
}

namespace babelring {

class OptionBinder;

/// Adds the command `completion bash|fish|zsh` to a program with commands. It prints the program's completion script.
/// `keys` are completed where a command takes `key=value` arguments. Both must outlive the parsing of the command line.
void add_completion(CLI::App& app, const OptionBinder& keys);

/// Adds the option `--completion bash|fish|zsh` to a program without commands. It prints the script and ends the
/// program.
void add_completion_option(CLI::App& app, const OptionBinder& keys);

/// A script that completes commands, options, their allowed words, and the keys of `key=value` arguments, generated
/// from `app` and `keys`. `shell` is bash, fish or zsh.
std::string completion_script(const CLI::App& app, const OptionBinder& keys, const std::string& shell);

}  // namespace babelring
