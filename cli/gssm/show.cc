#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "base/json.h"
#include "cli/gssm/gssm_commands.h"
#include "nmt/data/gssm/graph_text.h"

namespace babelring {
namespace {

struct ShowArguments {
  GssmChoice choice;
  bool dot = false;
};

void show_graph(const ShowArguments& arguments) {
  const GssmGraph graph = make_gssm_graph(arguments.choice.read().gssm);
  if (arguments.choice.json) {
    fmt::print("{}\n", to_text(gssm_graph_json(graph)));
  } else {
    fmt::print("{}", arguments.dot ? gssm_graph_dot(graph) : gssm_graph_table(graph));
  }
}

}  // namespace

void add_gssm_show(CLI::App& gssm) {
  CLI::App* command =
      gssm.add_subcommand("show", "Prints the graph, the sizes of its kernels and the likelihood's cost");
  const auto arguments = std::make_shared<ShowArguments>();
  arguments->choice.declare(*command);
  command->add_flag("--dot", arguments->dot, "print the graph for Graphviz's dot");
  command->callback([arguments] { show_graph(*arguments); });
}

}  // namespace babelring
