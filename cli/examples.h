#pragma once

namespace CLI {
class App;
}

namespace babelring {

/// Appends usage examples to the help of each command. Call after all commands were added.
void add_examples(CLI::App& app);

}  // namespace babelring
