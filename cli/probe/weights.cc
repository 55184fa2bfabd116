#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>

#include "base/failure.h"
#include "cli/checkpoint_folder.h"
#include "cli/probe/probe_commands.h"
#include "cli/probe/report.h"
#include "cli/runs/table.h"
#include "lab/probe/weights_compare.h"

namespace babelring {

namespace {

struct WeightsArguments {
  std::string a, b, tolerance = "0";
  ProbeColour colour = ProbeColour::automatic;
  bool json = false;
};

void add_row(Table& table, const ParameterDifference& difference) {
  const TensorDistance& distance = difference.distance;
  std::vector<Table::Cell> row = {{difference.name},
                                  {std::string(name_of(difference.sameness)), colour_of(difference.sameness)}};
  if (distance.different > 0) {
    row.push_back({fmt::format("{} of {}", distance.different, distance.compared)});
    row.push_back({fmt::format("{:.3g}", distance.worst.absolute)});
    row.push_back({fmt::format("{:.3g}", distance.worst.relative)});
    row.push_back({std::to_string(distance.worst.ulp)});
    row.push_back(
        {fmt::format("element {}: {:.9g} and {:.9g}", distance.ulp.at, difference.worst_a, difference.worst_b)});
  } else {
    row.resize(6);
    row.push_back({!difference.in_a ? "only in the second"
                   : !difference.in_b
                       ? "only in the first"
                       : fmt::format("shapes {} and {}", difference.shape_a.text(), difference.shape_b.text())});
  }
  table.add(std::move(row));
}

void print_weights(const WeightsComparison& comparison, const Screen& screen) {
  const bool differ = comparison.sameness == Sameness::differs;
  screen.out << "weights: "
             << screen.coloured(differ ? "differ" : name_of(comparison.sameness), colour_of(comparison.sameness))
             << '\n';
  Table table({{.title = "parameter", .importance = 100},
               {.title = "result", .importance = 100},
               {.title = "elements", .right = true, .importance = 90},
               {.title = "absolute", .right = true, .importance = 80},
               {.title = "relative", .right = true, .importance = 70},
               {.title = "ulp", .right = true, .importance = 85},
               {.title = "largest ulp at", .importance = 20}});
  for (const ParameterDifference& difference : comparison.differences) add_row(table, difference);
  if (!table.empty()) table.print(screen);
  const std::size_t same = comparison.parameters - comparison.differences.size();
  screen.out << fmt::format("{} of {} parameters are the same\n", same, comparison.parameters);
}

/// Returns true if the weights are the same or close.
bool compare_checkpoints(const WeightsArguments& arguments) {
  Result<Tolerance> tolerance = Tolerance::parse(arguments.tolerance);
  if (!tolerance) throw UsageFailure("--tolerance: " + tolerance.error());
  const auto load = [](const std::string& given) {
    return load_checkpoint(find_checkpoint(given), Verify::model).value();
  };
  const Checkpoint a = load(arguments.a), b = load(arguments.b);
  const WeightsComparison comparison = compare_weights(a, b, *tolerance);
  if (arguments.json) {
    std::cout << to_text(to_json(comparison)) << std::endl;
  } else {
    print_weights(comparison, screen_of(arguments.colour));
  }
  return comparison.sameness != Sameness::differs;
}

}  // namespace

void add_probe_weights(CLI::App& probe) {
  CLI::App* command = probe.add_subcommand(
      "weights", "Compares the weights of two checkpoints, parameter by parameter; exit code 1 if they differ");
  const auto arguments = std::make_shared<WeightsArguments>();
  command->add_option("a", arguments->a, "checkpoint, or a run's folder")->required();
  command->add_option("b", arguments->b, "checkpoint to compare it with")->required();
  add_tolerance(*command, arguments->tolerance);
  add_colour(*command, arguments->colour);
  command->add_flag("--json", arguments->json, "print JSON");
  command->callback([arguments] {
    bool alike = false;
    try {
      alike = compare_checkpoints(*arguments);
    } catch (const Failure& failure) {  // exit code 1 would say that the weights differ
      throw UsageFailure(failure.what());
    }
    if (!alike) throw CLI::RuntimeError(1);
  });
}

}  // namespace babelring
