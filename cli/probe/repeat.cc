#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "cli/probe/probe_commands.h"
#include "cli/probe/probe_plans.h"
#include "cli/probe/report.h"
#include "lab/probe/probe_repeat.h"

namespace babelring {

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

}  // namespace babelring
