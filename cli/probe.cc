#include "cli/probe.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "base/atomic_file.h"
#include "base/failure.h"
#include "base/help.h"
#include "base/nearest.h"
#include "base/usage.h"
#include "cli/checkpoint_folder.h"
#include "cli/probe_report.h"
#include "nmt/lab/probe/probe_compare.h"
#include "nmt/lab/probe/probe_repeat.h"
#include "nmt/lab/probe/probe_run.h"
#include "nmt/ops/precision.h"
#include "nmt/parallel/device.h"

namespace babelring {

namespace {

namespace fs = std::filesystem;

const std::vector<std::string> preset_names = {"transformer-tiny", "transformer-base", "transformer-big"};

enum class ProbeColour { automatic, always, never };

Screen screen_of(ProbeColour colour) {
  Screen screen = Screen::of_stdout();
  if (colour != ProbeColour::automatic) screen.colour = colour == ProbeColour::always;
  return screen;
}

std::vector<std::string> split_list(const std::string& list) {
  std::vector<std::string> items;
  std::istringstream stream(list);
  for (std::string item; std::getline(stream, item, ',');) items.push_back(item);
  return items;
}

struct SaveArguments {
  std::string output, config, checkpoint, presets, batch;
  std::vector<std::string> overrides;
  bool inference = false;
  std::int64_t updates = 1, first_update = 1;
  ProbeOptions options;
  std::string precision;  // empty: the configuration's
  DeviceChoice device = DeviceChoice::automatic;
  int threads = 0;
};

std::vector<std::string> chosen_presets(const std::string& list) {
  if (list == "all") return preset_names;
  for (const std::string& name : split_list(list)) {
    if (std::find(preset_names.begin(), preset_names.end(), name) != preset_names.end()) continue;
    throw UsageFailure(fmt::format("--preset: '{}' is no preset{}; expected all or some of {}", name,
                                   did_you_mean(name, preset_names), fmt::join(preset_names, ", ")));
  }
  return split_list(list);
}

TrainConfig preset_config(const std::string& preset, const std::vector<std::string>& overrides) {
  return read_config(fmt::format("preset: {}\ndata: {{folder: none}}\n", preset), preset, overrides);
}

ProbePlan plan_of(const SaveArguments& arguments, TrainConfig config, bool has_data) {
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

struct NamedPlan {
  std::string name;  // of the preset; empty for a configuration or a checkpoint
  ProbePlan plan;
};

/// The plans of the one source that is given.
std::vector<NamedPlan> plans_of(const SaveArguments& arguments) {
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
    plans.push_back({preset, plan_of(arguments, preset_config(preset, arguments.overrides), false)});
  }
  return plans;
}

std::unique_ptr<Backend> backend_for(const SaveArguments& arguments, const std::vector<NamedPlan>& plans) {
  std::unique_ptr<Backend> backend =
      choose_backend(arguments.device, arguments.threads, *make_single_communicator()).backend;
  for (const NamedPlan& each : plans) {
    if (each.plan.config.training.precision == DType::bf16) require_matmul(*backend, DType::bf16, "--precision f32");
  }
  return backend;
}

void save(const SaveArguments& arguments) {
  const std::vector<NamedPlan> plans = plans_of(arguments);
  const std::unique_ptr<Backend> backend = backend_for(arguments, plans);
  if (plans.size() > 1) fs::create_directories(arguments.output);
  for (const auto& [name, plan] : plans) {
    const fs::path output = arguments.output;
    const fs::path file = !name.empty() && fs::is_directory(output) ? output / (name + ".jsonl") : output;
    save_probe(plan, *backend, arguments.threads, file);
    fmt::print("{}\n", file.string());
  }
}

/// The options of commands that run updates.
void add_run_options(CLI::App& command, const std::shared_ptr<SaveArguments>& arguments) {
  command.add_option("--config", arguments->config, "configuration whose first updates are run");
  command.add_option("--checkpoint", arguments->checkpoint,
                     "checkpoint, or a run's folder, whose next updates are run");
  command.add_option("--preset", arguments->presets,
                     "model shapes that need no data: all, or names separated by commas");
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
  command
      .add_option("--layers", arguments->options.layers,
                  "all, firstN, lastN or globs such as decoder.*, separated by commas")
      ->capture_default_str();
  command.add_option("--tensors", arguments->options.tensors,
                     "globs of layers or LAYER/OP/MEMBER whose whole tensors go to FILE.safetensors");
  add_word_option(
      command, "--precision", {"auto", "f32", "bf16"}, "auto",
      [arguments](std::size_t index) { arguments->precision = index == 0   ? ""
                                                              : index == 1 ? "f32"
                                                                           : "bf16"; },
      "precision of matmuls; auto: the configuration's");
  using enum DeviceChoice;
  add_choice(command, "--device", arguments->device, {{"auto", automatic}, {"cpu", cpu}, {"cuda", cuda}},
             "compute device; auto uses a CUDA GPU if available, otherwise the CPU");
  command
      .add_option("--threads", arguments->threads,
                  "compute threads; 0: one per processor that affinity and CPU quota allow")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
}

void add_save(CLI::App& probe) {
  CLI::App* command =
      probe.add_subcommand("save", "Runs updates in this process and records every tensor that their ops write");
  const auto arguments = std::make_shared<SaveArguments>();
  command->add_option("--output", arguments->output, "file to write, FILE.jsonl; with several presets a folder")
      ->required();
  add_run_options(*command, arguments);
  command->callback([arguments] { save(*arguments); });
}

struct RepeatArguments {
  std::shared_ptr<SaveArguments> run = std::make_shared<SaveArguments>();
  int runs = 20;
  bool busy = false;
};

void repeat(const RepeatArguments& arguments) {
  const std::vector<NamedPlan> plans = plans_of(*arguments.run);
  const std::unique_ptr<Backend> backend = backend_for(*arguments.run, plans);
  bool alike = true;
  for (const auto& [name, plan] : plans) {
    const RepeatResult result = repeat_probe(plan, *backend, arguments.runs, arguments.busy);
    const std::string head = name.empty() ? "" : name + ": ";
    if (!result.first) {
      std::cout << head << result.runs << " runs: the same" << std::endl;
      continue;
    }
    alike = false;
    std::cout << fmt::format("{}{} of {} runs differ from the first run\nfirst tensor that differed, in {} runs: {}\n",
                             head, result.different, result.runs - 1, result.first_different, place_of(*result.first));
  }
  std::cout.flush();
  if (!alike) throw CLI::RuntimeError(1);
}

void add_repeat(CLI::App& probe) {
  CLI::App* command = probe.add_subcommand(
      "repeat",
      "Runs the same updates many times, and names the first tensor that ever differed; exit code 1 if one did");
  const auto arguments = std::make_shared<RepeatArguments>();
  command->add_option("-n,--runs", arguments->runs, "number of runs")
      ->check(CLI::Range(2, 100000))
      ->capture_default_str();
  command->add_flag("--busy", arguments->busy, "keep every processor busy with other threads meanwhile");
  add_run_options(*command, arguments->run);
  command->callback([arguments] { repeat(*arguments); });
}

struct PrintArguments {
  std::string file, fields = "phase,layer,op,member,shape,sha256,mean,absmax", layers;
};

void add_print(CLI::App& probe) {
  CLI::App* command = probe.add_subcommand("print", "Prints a probe");
  const auto arguments = std::make_shared<PrintArguments>();
  command->add_option("file", arguments->file, "probe")->required();
  command->add_option("--fields", arguments->fields, "members to show, separated by commas")->capture_default_str();
  command->add_option("--layers", arguments->layers, "glob of the layers to show; default: all");
  command->callback([arguments] {
    const std::vector<std::string> fields = split_list(arguments->fields);
    for (const std::string& field : fields) {
      if (std::find(probe_fields().begin(), probe_fields().end(), field) != probe_fields().end()) continue;
      throw UsageFailure(fmt::format("--fields: '{}' is no member of a record{}; members are {}", field,
                                     did_you_mean(field, probe_fields()), fmt::join(probe_fields(), ", ")));
    }
    print_probe(read_probe(arguments->file), fields, arguments->layers, Screen::of_stdout());
  });
}

struct CompareArguments {
  std::string a, b, tolerance = "0";
  CompareOptions options;
  ProbeReportOptions report;
  ProbeColour colour = ProbeColour::automatic;
  bool json = false;
};

/// Compares two files. Returns true if they are the same or close.
bool compare_files(const fs::path& a, const fs::path& b, const CompareArguments& arguments) {
  const Probe first = read_probe(a), second = read_probe(b);
  const ProbeComparison comparison = compare_probes(first, second, arguments.options);
  if (arguments.json) {
    std::cout << to_text(to_json(comparison)) << std::endl;
  } else {
    print_comparison(comparison, arguments.report, screen_of(arguments.colour));
  }
  return comparison.sameness != Sameness::differs;
}

std::vector<std::string> probes_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".jsonl") names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// Compares the probes of equal names in two folders. A probe that one folder lacks counts as different.
bool compare_folders(const fs::path& a, const fs::path& b, const CompareArguments& arguments) {
  const std::vector<std::string> first = probes_in(a), second = probes_in(b);
  std::vector<std::string> names = first;
  names.insert(names.end(), second.begin(), second.end());
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  if (names.empty()) throw UsageFailure(fmt::format("{} and {}: no probe, no file *.jsonl", a.string(), b.string()));
  bool alike = true;
  for (const std::string& name : names) {
    if (!arguments.json) std::cout << name << std::endl;
    if (fs::exists(a / name) && fs::exists(b / name)) {
      alike = compare_files(a / name, b / name, arguments) && alike;
    } else {
      alike = false;
      if (!arguments.json) std::cout << "probes: missing in " << (fs::exists(a / name) ? b : a).string() << std::endl;
    }
  }
  return alike;
}

/// Compares the probes that ranks of a run wrote with those of rank 0.
bool compare_ranks(const fs::path& run, const CompareArguments& arguments) {
  const fs::path folder = fs::is_directory(run / "lab") ? run / "lab" : run;
  constexpr std::string_view first_rank = "-rank-0.jsonl";
  bool alike = true;
  std::size_t compared = 0;
  const std::vector<std::string> names = fs::is_directory(folder) ? probes_in(folder) : std::vector<std::string>();
  for (const std::string& name : names) {
    if (!name.ends_with(first_rank)) continue;
    const std::string update = name.substr(0, name.size() - first_rank.size());
    for (const std::string& other : names) {
      if (other == name || !other.starts_with(update + "-rank-")) continue;
      if (!arguments.json) std::cout << name << ' ' << other << std::endl;
      alike = compare_files(folder / name, folder / other, arguments) && alike;
      ++compared;
    }
  }
  if (compared == 0) {
    throw UsageFailure(
        fmt::format("{}: expected probes of several ranks, probe-update-N-rank-0.jsonl and others; "
                    "lab.probe.at makes a run write them",
                    folder.string()));
  }
  return alike;
}

bool compare_given(const CompareArguments& arguments) {
  if (arguments.options.ranks) {
    if (!arguments.b.empty()) throw UsageFailure("--ranks: expected the folder of one run, found two paths");
    return compare_ranks(arguments.a, arguments);
  }
  if (arguments.b.empty()) {
    throw UsageFailure("expected two probes or two folders, found one; --ranks compares the ranks of one run");
  }
  const bool folders = fs::is_directory(arguments.a);
  if (folders != fs::is_directory(arguments.b)) {
    throw UsageFailure(fmt::format("{} and {}: expected two files or two folders", arguments.a, arguments.b));
  }
  return folders ? compare_folders(arguments.a, arguments.b, arguments)
                 : compare_files(arguments.a, arguments.b, arguments);
}

void compare(CompareArguments arguments) {
  Result<Tolerance> tolerance = Tolerance::parse(arguments.tolerance);
  if (!tolerance) throw UsageFailure("--tolerance: " + tolerance.error());
  arguments.options.tolerance = *tolerance;
  bool alike = false;
  try {
    alike = compare_given(arguments);
  } catch (const Failure& failure) {  // exit code 1 would say that the probes differ
    throw UsageFailure(failure.what());
  }
  if (!alike) throw CLI::RuntimeError(1);
}

void add_compare(CLI::App& probe) {
  CLI::App* command =
      probe.add_subcommand("compare", "Compares two probes, or the probes of two folders; exit code 1 if they differ");
  const auto arguments = std::make_shared<CompareArguments>();
  command->add_option("a", arguments->a, "probe, folder of probes, or with --ranks the folder of a run")->required();
  command->add_option("b", arguments->b, "probe or folder of probes to compare it with");
  command->add_flag("--ranks", arguments->options.ranks, "compare the ranks of one run in what must be equal on all");
  command
      ->add_option("--tolerance", arguments->tolerance,
                   "how far elements of close tensors may be apart: 0, or limits such as 4ulp,1e-5rel,1e-6abs, which "
                   "must all hold")
      ->capture_default_str();
  add_word_option(
      *command, "--by", {"layer", "tensor"}, "layer",
      [arguments](std::size_t index) { arguments->report.by_tensor = index == 1; }, "rows of the table");
  command->add_flag("--all", arguments->report.all, "show also what is the same");
  command->add_flag("--anyway", arguments->options.anyway, "compare also probes of different models or batches");
  add_choice(*command, "--color", arguments->colour,
             {{"auto", ProbeColour::automatic}, {"always", ProbeColour::always}, {"never", ProbeColour::never}},
             "colours; auto: on a terminal");
  command->add_flag("--json", arguments->json, "print JSON");
  command->callback([arguments] { compare(*arguments); });
}

}  // namespace

void add_probe(CLI::App& app) {
  CLI::App* probe = app.add_subcommand(
      "probe", "Records every tensor of an update, and finds where two such records begin to differ");
  probe->require_subcommand(1);
  add_save(*probe);
  add_print(*probe);
  add_compare(*probe);
  add_repeat(*probe);
}

}  // namespace babelring
