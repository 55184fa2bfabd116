#include "cli/probe/probe_plans.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/failure.h"
#include "base/files.h"
#include "base/options/usage.h"
#include "base/result.h"
#include "base/text.h"
#include "cli/model_options.h"
#include "cli/probe/probe.h"
#include "nmt/core/machine.h"
#include "nmt/parallel/device.h"
#include "nmt/train/setup/memory_plan.h"

namespace babelring {

namespace {

namespace fs = std::filesystem;

std::vector<std::string> chosen_presets(const std::string& list) {
  const std::vector<std::string>& names = model_presets();
  if (list == "all") return names;
  for (const std::string& name : split_list(list)) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    throw UsageFailure(fmt::format("--preset: '{}' is no preset{}; expected all or some of {}", name,
                                   did_you_mean(name, names), fmt::join(names, ", ")));
  }
  return split_list(list);
}

TrainConfig preset_config(const std::string& preset, const std::vector<std::string>& overrides) {
  const char* const task = model_preset(preset).encoder_layers == 0 ? "gssm" : "translation";
  return read_config(fmt::format("task: {}\npreset: {}\ndata: {{folder: none}}\n", task, preset), preset, overrides);
}

/// Whether an update of the plan's random batch fits into the free memory of the host; says so if it does not.
bool fits(const ProbePlan& plan) {
  TrainConfig config = plan.config;
  config.data.tokens_per_update = plan.random->sentences * plan.random->target_tokens;
  config.data.sequences_per_update = plan.random->sentences;
  config.data.sequence_length = plan.random->target_tokens + 1;
  const MemoryEstimate need = estimate_memory(config, probe_vocabulary, 1, 1);
  const MemoryInfo room = host_memory_info();
  if (room.total == 0 || need.total() <= static_cast<std::int64_t>(room.free)) return true;
  fmt::print(stderr, "{} is left out: its {} parameters and their update need {} bytes, {} are free\n", config.preset,
             need.parameters, need.total(), room.free);
  return false;
}

ProbePlan plan_of(const ProbeRunArguments& arguments, TrainConfig config, bool has_data) {
  if (!arguments.precision.empty()) config.training.precision = arguments.precision == "f32" ? DType::f32 : DType::bf16;
  ProbePlan plan{.config = std::move(config),
                 .training = !arguments.inference,
                 .updates = arguments.updates,
                 .first_update = arguments.first_update,
                 .options = arguments.options};
  const std::string batch = !arguments.batch.empty() ? arguments.batch : has_data ? "corpus" : "random:64x32/32";
  if (batch == "corpus") {
    if (!has_data) throw UsageFailure("--batch corpus: a preset has no data; expected --config or --checkpoint");
    return plan;
  }
  Result<RandomBatch> random = RandomBatch::parse(batch);
  if (!random) throw UsageFailure("--batch: " + random.error());
  plan.random = *random;
  return plan;
}

}  // namespace

std::vector<NamedPlan> plans_of(const ProbeRunArguments& arguments) {
  const int sources = !arguments.config.empty() + !arguments.checkpoint.empty() + !arguments.presets.empty();
  if (sources != 1) {
    throw UsageFailure(fmt::format("expected one of --config, --checkpoint and --preset, found {}", sources));
  }
  if (!arguments.config.empty()) {
    const std::string wrong = existing_file(arguments.config);
    if (!wrong.empty()) throw UsageFailure("--config: " + wrong);
    const TrainConfig config = read_config(read_file(arguments.config), arguments.config, arguments.overrides);
    return {{"", plan_of(arguments, config, true)}};
  }
  if (!arguments.checkpoint.empty()) {
    if (arguments.first_update != 1) throw UsageFailure("--first-update: a checkpoint says its own next update");
    const fs::path folder = find_checkpoint(arguments.checkpoint);
    const fs::path file = folder / "config.yaml";
    ProbePlan plan = plan_of(arguments, read_config(read_file(file), file.string(), arguments.overrides), true);
    plan.checkpoint = folder;
    return {{"", std::move(plan)}};
  }
  std::vector<NamedPlan> plans;
  for (const std::string& preset : chosen_presets(arguments.presets)) {
    ProbePlan plan = plan_of(arguments, preset_config(preset, arguments.overrides), false);
    if (arguments.presets == "all" && !fits(plan)) continue;
    plans.push_back({preset, std::move(plan)});
  }
  return plans;
}

std::unique_ptr<Backend> backend_for(const ProbeRunArguments& arguments, const std::vector<NamedPlan>& plans) {
  std::unique_ptr<Backend> backend =
      choose_backend(arguments.device, arguments.threads, *make_single_communicator()).backend;
  for (const NamedPlan& each : plans) {
    if (each.plan.config.training.precision == DType::bf16) require_matmul(*backend, DType::bf16, "--precision f32");
  }
  return backend;
}

void add_update_options(CLI::App& command, const std::shared_ptr<ProbeRunArguments>& arguments) {
  command.add_option("--config", arguments->config, "configuration whose first updates are run");
  command.add_option("--checkpoint", arguments->checkpoint,
                     "checkpoint, or a run's folder, whose next updates are run");
  command.add_option("--preset", arguments->presets,
                     "model shapes that need no data: all that fit into memory, or names separated by commas");
  command.add_option("overrides", arguments->overrides, "key=value: changes of the configuration");
  add_word_option(
      command, "--mode", {"training", "inference"}, "training",
      [arguments](std::size_t index) { arguments->inference = index == 1; },
      "training: whole updates; inference: forward only, without dropout");
  command.add_option("--updates", arguments->updates, "number of updates")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command.add_option("--first-update", arguments->first_update, "number of the first update")
      ->check(CLI::Range(1, 1000000000))
      ->capture_default_str();
  command.add_option("--batch", arguments->batch,
                     "corpus, or random:SENTENCESxSOURCE/TARGET tokens; default: corpus, for a preset random:64x32/32");
  add_word_option(
      command, "--precision", {"auto", "f32", "bf16"}, "auto",
      [arguments](std::size_t index) { arguments->precision = index == 0   ? ""
                                                              : index == 1 ? "f32"
                                                                           : "bf16"; },
      "precision of matmuls; auto: the configuration's");
  command
      .add_option("--threads", arguments->threads,
                  "compute threads; 0: one per processor that affinity and CPU quota allow")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
}

void add_run_options(CLI::App& command, const std::shared_ptr<ProbeRunArguments>& arguments) {
  add_update_options(command, arguments);
  command
      .add_option("--layers", arguments->options.layers,
                  "all, firstN, lastN or globs such as decoder.*, separated by commas")
      ->capture_default_str();
  command.add_option("--tensors", arguments->options.tensors,
                     "globs of layers or LAYER/OP/MEMBER whose whole tensors go to FILE.safetensors");
  using enum DeviceChoice;
  add_choice(command, "--device", arguments->device, {{"auto", automatic}, {"cpu", cpu}, {"cuda", cuda}},
             "compute device; auto uses a CUDA GPU if available, otherwise the CPU");
}

}  // namespace babelring
