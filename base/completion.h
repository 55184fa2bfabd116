#pragma once

#include <string>

namespace CLI {
class App;
}

namespace babelring {

/// Adds `nmt completion bash|fish|zsh`, which prints a completion script for the commands and options of `app`. The
/// script is generated from `app`, so it is always complete.
void add_completion(CLI::App& app);

/// Generates the script. `shell` is bash, fish or zsh.
std::string completion_script(const CLI::App& app, const std::string& shell);

}  // namespace babelring
