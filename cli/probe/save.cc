#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/failure.h"
#include "cli/probe/probe_commands.h"
#include "cli/probe/probe_plans.h"

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

}  // namespace babelring
