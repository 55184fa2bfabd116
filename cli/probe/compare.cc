#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/failure.h"
#include "base/options/usage.h"
#include "base/result.h"
#include "cli/model_options.h"
#include "cli/probe/probe.h"
#include "cli/probe/report.h"
#include "cli/runs/table.h"
#include "lab/probe/comparisons.h"
#include "lab/probe/probe_compare.h"

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

namespace {

namespace fs = std::filesystem;

struct ProbeCompareArguments {
  std::string a, b, fields, tolerance = "0";
  CompareOptions options;
  ProbeReportOptions report;
  ProbeColour colour = ProbeColour::automatic;
  bool json = false;
};

/// Compares two files. Returns true if they are the same or close.
bool compare_files(const fs::path& a, const fs::path& b, const ProbeCompareArguments& arguments) {
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
bool compare_folders(const fs::path& a, const fs::path& b, const ProbeCompareArguments& arguments) {
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
bool compare_ranks(const fs::path& run, const ProbeCompareArguments& arguments) {
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

bool compare_given(const ProbeCompareArguments& arguments) {
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

void compare_probes_given(ProbeCompareArguments arguments) {
  Result<Tolerance> tolerance = Tolerance::parse(arguments.tolerance);
  if (!tolerance) throw UsageFailure("--tolerance: " + tolerance.error());
  arguments.options.tolerance = *tolerance;
  if (!arguments.fields.empty()) arguments.report.fields = probe_fields(arguments.fields);
  bool alike = false;
  try {
    alike = compare_given(arguments);
  } catch (const Failure& failure) {  // exit code 1 would say that the probes differ
    throw UsageFailure(failure.what());
  }
  if (!alike) throw CLI::RuntimeError(1);
}

}  // namespace

void add_probe_compare(CLI::App& probe) {
  CLI::App* command =
      probe.add_subcommand("compare", "Compares two probes, or the probes of two folders; exit code 1 if they differ");
  const auto arguments = std::make_shared<ProbeCompareArguments>();
  command->add_option("a", arguments->a, "probe, folder of probes, or with --ranks the folder of a run")->required();
  command->add_option("b", arguments->b, "probe or folder of probes to compare it with");
  command->add_flag("--ranks", arguments->options.ranks, "compare the ranks of one run in what must be equal on all");
  add_tolerance(*command, arguments->tolerance);
  add_word_option(
      *command, "--by", {"layer", "tensor"}, "layer",
      [arguments](std::size_t index) { arguments->report.by_tensor = index == 1; }, "rows of the table");
  command->add_option("--fields", arguments->fields,
                      "members of both probes to show beside each tensor, such as min,max,rms; rows are then tensors");
  command->add_flag("--all", arguments->report.all, "show also what is the same");
  command->add_flag("--anyway", arguments->options.anyway, "compare also probes of different models or batches");
  add_colour(*command, arguments->colour);
  command->add_flag("--json", arguments->json, "print JSON");
  command->callback([arguments] { compare_probes_given(*arguments); });
}

}  // namespace babelring
