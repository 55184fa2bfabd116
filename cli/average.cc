#include "cli/commands.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/failure.h"
#include "base/log.h"
#include "base/options/usage.h"
#include "base/text.h"
#include "cli/model_options.h"
#include "nmt/checkpoint/checkpoint.h"

namespace babelring {

namespace {

struct AverageArguments {
  std::string output;
  int last = 0;
  std::vector<std::filesystem::path> inputs;
};

std::vector<std::filesystem::path> chosen(const AverageArguments& arguments) {
  std::vector<std::filesystem::path> inputs = arguments.inputs;
  if (arguments.last == 0) {
    for (std::filesystem::path& input : inputs) {
      if (is_run_folder(input)) {
        throw UsageFailure(fmt::format("average: {} is a run's folder: add --last N", input.string()));
      }
      if (std::filesystem::is_regular_file(input)) input = find_checkpoint(input);  // `best`, which names a checkpoint
    }
  }
  inputs = without_repeats(inputs, "average");
  if (arguments.last == 0) return inputs;
  if (inputs.size() != 1) {
    throw UsageFailure(fmt::format("average: --last takes the folder of one run, found {}", inputs.size()));
  }
  return last_checkpoints(inputs.front(), arguments.last);
}

/// Throws Failure if checkpoints are incompatible. Logs a warning if they are from different runs.
void compare(const std::vector<std::filesystem::path>& inputs) {
  std::vector<Checkpoint> checkpoints;
  for (const std::filesystem::path& input : inputs) {
    checkpoints.push_back(load_checkpoint(input, Verify::sizes).value());
  }
  std::set<std::string> runs;
  for (const Checkpoint& checkpoint : checkpoints) {
    require_same_model("average", checkpoints.front(), checkpoint);
    const json::value* run = checkpoint.state.if_contains("run");
    if (run != nullptr && run->is_string()) runs.insert(printable(std::string_view(run->get_string())));
  }
  if (runs.size() > 1) spdlog::warn("average: the checkpoints are from different runs: {}", fmt::join(runs, ", "));
}

void average(const AverageArguments& arguments) {
  const std::vector<std::filesystem::path> inputs = chosen(arguments);
  compare(inputs);
  const Checkpoint result = average_checkpoints(inputs, arguments.output);
  fmt::print("{}: mean of {}\n", result.folder.string(), counted(static_cast<double>(inputs.size()), "checkpoint"));
}

}  // namespace

void add_average(CLI::App& app) {
  CLI::App* command = app.add_subcommand("average", "Averages the weights of checkpoints into a new checkpoint");
  const auto arguments = std::make_shared<AverageArguments>();
  command->add_option("--output", arguments->output, "folder of the new checkpoint; must not exist")->required();
  command->add_option("--last", arguments->last, "average the newest N checkpoints of a run's folder")
      ->check(CLI::Range(1, 1000000));
  command->add_option("checkpoints", arguments->inputs, "checkpoints, or with --last a run's folder")->required();
  command->callback([arguments] { average(*arguments); });
}

}  // namespace babelring
