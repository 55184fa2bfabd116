#pragma once

namespace CLI {
class App;
}

namespace babelring {

/// Adds `nmt trace timeline`, which summarises a timeline of all ranks (lab.trace.updates).
void add_trace_timeline(CLI::App& trace);

}  // namespace babelring
