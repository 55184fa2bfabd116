#include "cli/trace/trace.h"

#include <CLI/CLI.hpp>

#include "cli/trace/graph.h"
#include "cli/trace/light.h"
#include "cli/trace/memory.h"
#include "cli/trace/parameters.h"
#include "cli/trace/timeline.h"

namespace babelring {

void add_trace(CLI::App& app) {
  CLI::App* command = app.add_subcommand("trace", "Shows what happens inside of updates");
  command->require_subcommand(1);
  add_trace_timeline(*command);
  add_trace_memory(*command);
  add_trace_graph(*command);
  add_trace_light(*command);
  add_trace_parameters(*command);
}

}  // namespace babelring
