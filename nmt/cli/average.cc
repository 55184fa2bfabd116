#include "nmt/cli/average.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "nmt/base/failure.h"
#include "nmt/checkpoint/checkpoint.h"
#include "nmt/cli/checkpoint_folder.h"

namespace babelring {

namespace {

struct AverageArguments {
  std::string output;
  int last = 0;
  std::vector<std::filesystem::path> inputs;
};

std::vector<std::filesystem::path> chosen(const AverageArguments& arguments) {
  if (arguments.last == 0) return arguments.inputs;
  if (arguments.inputs.size() != 1) {
    throw UsageFailure(fmt::format("average: --last takes the folder of one run, found {}", arguments.inputs.size()));
  }
  return last_checkpoints(arguments.inputs.front(), arguments.last);
}

void average(const AverageArguments& arguments) {
  const std::vector<std::filesystem::path> inputs = chosen(arguments);
  const Checkpoint result = average_checkpoints(inputs, arguments.output);
  fmt::print("{}: mean of {} checkpoints\n", result.folder.string(), inputs.size());
}

}  // namespace

void add_average(CLI::App& app) {
  CLI::App* command = app.add_subcommand("average", "Averages the weights of checkpoints into a new checkpoint");
  const auto arguments = std::make_shared<AverageArguments>();
  command->add_option("--output", arguments->output, "folder of the new checkpoint; must not exist")->required();
  command->add_option("--last", arguments->last, "the newest N of a run's folder, instead of those named")
      ->check(CLI::Range(1, 1000000));
  command->add_option("checkpoints", arguments->inputs, "checkpoints, or with --last the folder of a run")->required();
  command->callback([arguments] { average(*arguments); });
}

}  // namespace babelring
