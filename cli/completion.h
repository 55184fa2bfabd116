#pragma once

#include <string>

namespace CLI {
class App;
}

namespace babelring {

/// `nmt completion bash|fish|zsh`: a script that completes the commands and options of `app`, made from its own tree,
/// so that the two cannot differ.
void add_completion(CLI::App& app);

/// The script itself. `shell` is bash, fish or zsh.
std::string completion_script(const CLI::App& app, const std::string& shell);

}  // namespace babelring
