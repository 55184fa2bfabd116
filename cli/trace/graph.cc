#include "cli/trace/graph.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <boost/json/object.hpp>
#include <memory>

#include "base/records/event_file.h"
#include "base/failure.h"
#include "base/options/help.h"
#include "cli/checkpoint_folder.h"
#include "cli/trace/dry_options.h"
#include "nmt/comm/host_name.h"
#include "lab/graph/op_graph.h"

namespace babelring {
namespace {

enum class Depth { layer, op };
enum class Format { dot, json, svg, tensorboard };
constexpr std::int64_t default_tokens = 16;

struct GraphArguments {
  DryOptions dry;
  std::string checkpoint, output;
  Depth depth = Depth::layer;
  Format format = Format::dot;
  bool training = false;
};

/// The configuration file of the update: the given one, or that of the checkpoint.
DryOptions options_of(const GraphArguments& arguments) {
  if (arguments.checkpoint.empty() == arguments.dry.config_file.empty()) {
    throw UsageFailure("trace graph: expected either --config FILE or --checkpoint DIR");
  }
  DryOptions options = arguments.dry;
  if (!arguments.checkpoint.empty()) options.config_file = find_checkpoint(arguments.checkpoint) / "config.yaml";
  return options;
}

void write_board(const OpGraph& graph, const std::string& folder) {
  if (folder.empty()) throw UsageFailure("trace graph: --format tensorboard needs --output FOLDER");
  EventFile file(folder, host_name());
  if (!file.write_graph(graph_def_of(graph))) fail("{}", file.message());
  fmt::print("{}\n", file.path().string());
}

void run_graph(const GraphArguments& arguments) {
  const DryOptions options = options_of(arguments);
  const TrainConfig config = options.config();
  DryUpdate update(config, options.batch(config, default_tokens));
  OpGraph graph = trace_graph(update, arguments.training);
  if (arguments.depth == Depth::layer) graph = by_layer(graph);
  if (arguments.format == Format::tensorboard) return write_board(graph, arguments.output);
  const std::string text = arguments.format == Format::json  ? to_text(to_json(graph)) + '\n'
                           : arguments.format == Format::svg ? svg_of(graph)
                                                             : dot_of(graph);
  write_output(text, arguments.output);
}

}  // namespace

void add_trace_graph(CLI::App& trace) {
  CLI::App* command = trace.add_subcommand(
      "graph",
      "Draws the ops of a model as a graph: an edge leads from the op that writes a tensor to each op that reads it");
  const auto arguments = std::make_shared<GraphArguments>();
  arguments->dry.declare(*command, "source and target tokens in the shapes, each; default: 16");
  command->add_option("--checkpoint", arguments->checkpoint, "checkpoint or run whose configuration is drawn")
      ->type_name("DIR");
  command->add_option("settings", arguments->dry.overrides, "key=value")->type_name("KEY=VALUE");
  add_choice(*command, "--depth", arguments->depth, {{"layer", Depth::layer}, {"op", Depth::op}},
             "a node for each layer or for each op");
  add_choice(*command, "--format", arguments->format,
             {{"dot", Format::dot}, {"json", Format::json}, {"svg", Format::svg}, {"tensorboard", Format::tensorboard}},
             "for Graphviz, as JSON, as a drawing, or as an event file");
  command->add_flag("--training", arguments->training, "also backward and the optimizer");
  command->add_option("--output", arguments->output, "file to write, with tensorboard a folder")->type_name("PATH");
  command->callback([arguments] { run_graph(*arguments); });
}

}  // namespace babelring
