#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "base/grouped.h"
#include "base/json.h"
#include "cli/gssm/gssm_commands.h"
#include "nmt/data/gssm/generator.h"
#include "nmt/data/gssm/graph_text.h"
#include "lab/dry_update.h"
#include "nmt/train/setup/memory_plan.h"
#include "nmt/train/setup/task_data.h"

namespace babelring {
namespace {

struct ShowArguments {
  GssmChoice choice;
  bool dot = false, kernels = false;
};

/// The cost of the model that the configuration trains.
struct ModelCost {
  MemoryEstimate memory;       // of one rank
  double flops_per_token = 0;  // of matmuls, forward and backward, per target token
  double forward_flops = 0;    // of these, forward only
};

ModelCost cost_of(const TrainConfig& config, std::int64_t vocabulary) {
  ModelCost cost{.memory = estimate_memory(config, vocabulary, 1, 0)};
  const std::int64_t targets = config.data.sequence_length - 1;
  DryUpdate update(config, {.vocabulary = vocabulary, .target_tokens = targets, .sentences = 1});
  const Backend& backend = update.replica().backend;
  update.run_inference();
  cost.forward_flops = backend.flops() / static_cast<double>(targets);
  update.run();
  cost.flops_per_token = backend.flops() / static_cast<double>(targets) - cost.forward_flops;
  return cost;
}

std::string model_table(const TrainConfig& config, const ModelCost& cost) {
  const MemoryEstimate& memory = cost.memory;
  const auto gib = [](std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 30); };
  return fmt::format(
      "model: {} layers, width {}, {} heads, inner {}: {} parameters\n"
      "training: {} floating-point operations a token in sequences of {}, of "
      "which forward {}\n"
      "memory of one rank: {:.2f} GiB: weights {:.2f}, gradients {:.2f}, "
      "moments {:.2f}, activations and scratch "
      "{:.2f} for {} tokens at a time\n",
      config.model.decoder_layers, config.model.width, config.model.heads, config.model.inner,
      grouped(memory.parameters), grouped(cost.flops_per_token), config.data.sequence_length,
      grouped(cost.forward_flops), gib(memory.total()), gib(memory.weights), gib(memory.gradients), gib(memory.moments),
      gib(memory.activations + memory.scratch), grouped(memory.target_tokens));
}

json::object model_json(const ModelCost& cost) {
  const MemoryEstimate& memory = cost.memory;
  return {{"parameters", memory.parameters},
          {"flops_per_token", cost.flops_per_token},
          {"forward_flops_per_token", cost.forward_flops},
          {"memory_bytes", memory.total()},
          {"tokens_at_a_time", memory.target_tokens}};
}

/// A training's first sequence has these kernels; nodes in context mode have others for each sequence.
GssmKernels kernels_of(const TrainConfig& config, const GssmGraph& graph) {
  return GssmGenerator(graph).kernels({.seed = static_cast<std::uint64_t>(config.training.seed)});
}

void show_graph(const ShowArguments& arguments) {
  const TrainConfig config = with_generator_of_folder(arguments.choice.read_task());
  const GssmGraph graph = make_gssm_graph(config.gssm);
  if (arguments.dot) return fmt::print("{}", gssm_graph_dot(graph));
  const ModelCost cost = cost_of(config, graph.vocabulary());
  if (arguments.choice.json) {
    json::object object = gssm_graph_json(graph);
    object["model"] = model_json(cost);
    if (arguments.kernels) object["kernels"] = gssm_kernels_json(graph, kernels_of(config, graph));
    fmt::print("{}\n", to_text(object));
  } else {
    fmt::print("{}{}", gssm_graph_table(graph), model_table(config, cost));
    if (arguments.kernels) fmt::print("{}", gssm_kernels_table(graph, kernels_of(config, graph)));
  }
}

}  // namespace

void add_gssm_show(CLI::App& gssm) {
  CLI::App* command = gssm.add_subcommand("show",
                                          "Prints the graph, the sizes of its kernels, the likelihood's "
                                          "cost, and the model's size and cost");
  const auto arguments = std::make_shared<ShowArguments>();
  arguments->choice.declare(*command);
  command->add_flag("--dot", arguments->dot, "print the graph for Graphviz's dot");
  command->add_flag("--kernels", arguments->kernels,
                    "also print the probabilities, with --json with all bits; of nodes in context mode those of the "
                    "first sequence");
  command->callback([arguments] { show_graph(*arguments); });
}

}  // namespace babelring
