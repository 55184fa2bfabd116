#pragma once

namespace CLI {
class App;
}

namespace babelring {

/// Adds `graph` to `nmt trace`: the ops of a model, and the readers of the tensors that they write.
void add_trace_graph(CLI::App& trace);

}  // namespace babelring
