#include "cli/gssm/gssm_commands.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "base/files.h"
#include "base/json.h"
#include "base/options/usage.h"
#include "base/text.h"
#include "lab/dry_update.h"
#include "nmt/core/machine.h"
#include "nmt/data/gssm/finite_data.h"
#include "nmt/data/gssm/generator.h"
#include "nmt/data/gssm/graph_text.h"
#include "nmt/train/setup/memory_plan.h"
#include "nmt/train/setup/task_data.h"

namespace babelring {
namespace {

struct DataArguments {
  GssmChoice choice;
  std::string output;
  std::int64_t train = 0, test = 0, entropy_sequences = 256;
};

void write_data(const DataArguments& arguments) {
  const GssmDataResult result = write_gssm_data({.config = arguments.choice.read_generator(),
                                                 .output = arguments.output,
                                                 .train = arguments.train,
                                                 .test = arguments.test,
                                                 .entropy_sequences = arguments.entropy_sequences,
                                                 .threads = own_processors().count()});
  const Manifest& manifest = result.manifest;
  if (arguments.choice.json) {
    json::object object = manifest.options;
    object["output"] = arguments.output;
    object["vocabulary_size"] = manifest.vocabulary_size;
    fmt::print("{}\n", to_text(object));
    return;
  }
  for (const ManifestSet& set : manifest.sets) {
    fmt::print("{}: {} sequences, {} tokens\n", set.name, set.sentences, set.target_tokens);
  }
  if (result.entropy.sequences > 0) {
    fmt::print("entropy of {} test sequences: {:.4f} nats per token, standard error {:.4f}\n", result.entropy.sequences,
               result.entropy.nats, result.entropy.standard_error);
  }
  fmt::print("written to {}, vocabulary of {} tokens\n", arguments.output, manifest.vocabulary_size);
}

}  // namespace

void add_gssm_data(CLI::App& gssm) {
  CLI::App* command = gssm.add_subcommand("data", "Writes finite sets of sequences to a folder, with their entropy");
  const auto arguments = std::make_shared<DataArguments>();
  DataArguments& a = *arguments;
  a.choice.declare(*command);
  constexpr std::int64_t max_sequences = std::int64_t{1} << 40;
  command->add_option("--output", a.output, "output folder, created if absent")
      ->required()
      ->check(folder_or_nothing)
      ->type_name("DIR");
  command->add_option("--train", a.train, "training sequences")
      ->required()
      ->check(CLI::Range(std::int64_t{1}, max_sequences));
  command->add_option("--test", a.test, "test sequences")
      ->required()
      ->check(CLI::Range(std::int64_t{1}, max_sequences));
  command
      ->add_option("--entropy-sequences", a.entropy_sequences,
                   "max test sequences whose likelihood is computed; 0: none")
      ->check(CLI::Range(std::int64_t{0}, max_sequences))
      ->capture_default_str();
  command->callback([arguments] { write_data(*arguments); });
}

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
  const TrainConfig config = with_generator_of_folder(arguments.choice.read_training());
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

void GssmChoice::declare(CLI::App& command) {
  command.add_option("--config", file, "configuration with the generator's nodes")->required()->check(existing_file);
  command.add_option("overrides", overrides, "key=value overrides, such as gssm.nodes.2.alpha=0.1");
  command.add_flag("--json", json, "print one JSON object");
}

TrainConfig GssmChoice::read_training() const {
  return read_gssm_task(read_file(file), file, overrides);
}

GssmConfig GssmChoice::read_generator() const {
  const TrainConfig config = read_training();
  return {.gssm = config.gssm, .sequence_length = config.data.sequence_length, .seed = config.training.seed};
}

void add_gssm(CLI::App& app) {
  CLI::App* gssm = app.add_subcommand("gssm", "Generates synthetic sequences with known entropy, and measures them");
  gssm->require_subcommand(1);
  add_gssm_show(*gssm);
  add_gssm_difficulty(*gssm);
  add_gssm_data(*gssm);
  add_gssm_sample(*gssm);
}

}  // namespace babelring
