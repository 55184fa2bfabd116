#pragma once

namespace CLI {
class App;
}

namespace babelring {

/// Adds `nmt prepare`, which converts raw parallel text into a prepared folder. Its callback does the work and throws
/// Failure.
void add_prepare(CLI::App& app);

}  // namespace babelring
