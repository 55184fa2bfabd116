#pragma once

namespace CLI {
class App;
}

namespace babelring {

/// `nmt average`: the mean of several checkpoints' weights, again a checkpoint.
void add_average(CLI::App& app);

}  // namespace babelring
