#pragma once

namespace CLI {
class App;
}

namespace babelring {

/// Adds `nmt evaluate`, which computes loss, BLEU and chrF of a checkpoint on a held-out set.
void add_evaluate(CLI::App& app);

}  // namespace babelring
