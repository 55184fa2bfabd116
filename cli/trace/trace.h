#pragma once

namespace CLI {
class App;
}

namespace babelring {

/// Adds `nmt trace`, whose subcommands show what the lab's tools wrote into the folder of a run.
void add_trace(CLI::App& app);

}  // namespace babelring
