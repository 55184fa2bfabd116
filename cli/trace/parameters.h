#pragma once

namespace CLI {
class App;
}

namespace babelring {

/// Adds `nmt trace parameters`, which shows the rows that the optimizer changes most or least (lab.parameters.window).
void add_trace_parameters(CLI::App& trace);

}  // namespace babelring
