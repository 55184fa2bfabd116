#pragma once

namespace CLI {
class App;
}

namespace babelring {

/// Ends the help of each command with examples of its use. Call it when all commands have been added.
void add_examples(CLI::App& app);

}  // namespace babelring
