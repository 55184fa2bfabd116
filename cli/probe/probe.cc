#include "cli/probe/probe.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "base/failure.h"
#include "base/options/usage.h"
#include "cli/probe/probe_plans.h"
#include "cli/probe/report.h"
#include "lab/probe/comparisons.h"

namespace babelring {
namespace {

namespace fs = std::filesystem;

void save_probes(const ProbeRunArguments& arguments, const fs::path& output) {
  const bool several = arguments.presets == "all" || arguments.presets.find(',') != std::string::npos;
  if (several && fs::exists(output) && !fs::is_directory(output)) {
    throw UsageFailure(
        fmt::format("--output: {} is a file, expected a folder for a probe of each preset", output.string()));
  }
  const std::vector<NamedPlan> plans = plans_of(arguments);
  const std::unique_ptr<Backend> backend = backend_for(arguments, plans);
  if (several) fs::create_directories(output);
  for (const auto& [name, plan] : plans) {
    const fs::path file = !name.empty() && fs::is_directory(output) ? output / (name + ".jsonl") : output;
    save_probe(plan, *backend, arguments.threads, file);
    fmt::print("{}\n", file.string());
  }
}

}  // namespace

void add_probe_save(CLI::App& probe) {
  CLI::App* command =
      probe.add_subcommand("save", "Runs updates in this process and records every tensor that their ops write");
  const auto arguments = std::make_shared<ProbeRunArguments>();
  const auto output = std::make_shared<std::string>();
  command->add_option("--output", *output, "file to write, FILE.jsonl; with several presets a folder")->required();
  add_run_options(*command, arguments);
  command->callback([arguments, output] { save_probes(*arguments, *output); });
}

namespace {

struct RepeatArguments {
  std::shared_ptr<ProbeRunArguments> run = std::make_shared<ProbeRunArguments>();
  int runs = 20;
  bool busy = false;
};

void repeat_probes(const RepeatArguments& arguments) {
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

}  // namespace

void add_probe_repeat(CLI::App& probe) {
  CLI::App* command = probe.add_subcommand(
      "repeat",
      "Runs the same updates many times, and names the first tensor that ever differed; exit code 1 if one did");
  const auto arguments = std::make_shared<RepeatArguments>();
  command->add_option("-n,--runs", arguments->runs, "number of runs")
      ->check(CLI::Range(2, 100000))
      ->capture_default_str();
  command->add_flag("--busy", arguments->busy, "keep every processor busy with other threads meanwhile");
  add_run_options(*command, arguments->run);
  command->callback([arguments] { repeat_probes(*arguments); });
}

void add_colour(CLI::App& command, ProbeColour& colour) {
  add_choice(command, "--color", colour,
             {{"auto", ProbeColour::automatic}, {"always", ProbeColour::always}, {"never", ProbeColour::never}},
             "colours; auto: on a terminal");
}

void add_tolerance(CLI::App& command, std::string& tolerance) {
  command
      .add_option("--tolerance", tolerance,
                  "how far elements of close tensors may be apart: 0, or limits such as 4ulp,1e-5rel,1e-6abs, which "
                  "must all hold")
      ->capture_default_str();
}

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

void add_probe(CLI::App& app) {
  CLI::App* probe = app.add_subcommand(
      "probe", "Records every tensor of an update, and finds where two such records begin to differ");
  probe->require_subcommand(1);
  add_probe_save(*probe);
  add_probe_print(*probe);
  add_probe_compare(*probe);
  add_probe_repeat(*probe);
  add_probe_weights(*probe);
  add_probe_backends(*probe);
}

}  // namespace babelring
