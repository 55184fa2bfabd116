#pragma once

namespace CLI {
class App;
}

namespace babelring {

/// Adds `graph` to `nmt trace`: which op reads what which other op wrote.
void add_trace_graph(CLI::App& trace);

}  // namespace babelring
