#pragma once

namespace CLI {
class App;
}

namespace babelring {

/// Adds `memory` to `nmt trace`: the bytes in use after each op of an update, the peak and its contents.
void add_trace_memory(CLI::App& trace);

}  // namespace babelring
