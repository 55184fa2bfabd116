#pragma once

namespace CLI {
class App;
}

namespace babelring {

/// Adds `nmt score`, which computes BLEU and chrF of a file against references. Its callback does the work and throws
/// Failure.
void add_score(CLI::App& app);

}  // namespace babelring
