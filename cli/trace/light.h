#pragma once

namespace CLI {
class App;
}

namespace babelring {

/// Adds `nmt trace light`, which writes a line of times for each update, in the form of another tool's light profiler.
void add_trace_light(CLI::App& trace);

}  // namespace babelring
