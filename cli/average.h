#pragma once

namespace CLI {
class App;
}

namespace babelring {

/// Adds `nmt average`, which averages the weights of checkpoints into a new checkpoint.
void add_average(CLI::App& app);

}  // namespace babelring
