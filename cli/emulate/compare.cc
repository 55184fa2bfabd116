#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <memory>

#include "base/atomic_file.h"
#include "base/failure.h"
#include "cli/emulate/emulate.h"
#include "cli/emulate/measured_run.h"
#include "cli/emulate/prediction_output.h"
#include "cli/emulate/setup_options.h"
#include "cli/runs/table.h"
#include "insight/predict/curve.h"

namespace babelring {
namespace {

struct EmulationCompareArguments {
  SetupOptions options;
  std::vector<std::string> runs;
  std::string output;
  bool as_json = false, emulated = false;
};

/// A run beside its prediction.
struct ComparedRun {
  std::string name;
  MeasuredRun measured;
  insight::Prediction predicted;
  double step_error() const { return predicted.step_ms.median / measured.step_ms - 1; }
};

ComparedRun compare_run(const EmulationCompareArguments& arguments, const insight::RankRecord& record,
                        const std::string& run) {
  if (is_emulated(run) && !arguments.emulated) {
    throw UsageFailure(fmt::format("{}: the run was emulated, expected a real one; --emulated compares it too", run));
  }
  ComparedRun compared{.name = run, .measured = read_measured_run(run), .predicted = {}};
  const MeasuredRun& measured = compared.measured;
  if (measured.ranks % measured.hosts != 0) {
    throw UsageFailure(
        fmt::format("{}: found {} ranks on {} hosts, expected as many on each", run, measured.ranks, measured.hosts));
  }
  insight::RunSetup setup = arguments.options.with_links(measured.hosts, measured.ranks / measured.hosts);
  setup.sizes = {{measured.size / setup.accumulate}};
  compared.predicted = insight::predict(record, setup, static_cast<std::uint64_t>(arguments.options.seed));
  return compared;
}

json::object comparison_json(const ComparedRun& run) {
  json::object parts;
  const auto measured = named_parts(run.measured.parts), predicted = named_parts(run.predicted.parts);
  for (std::size_t i = 0; i < measured.size(); ++i) {
    parts[measured[i].first] = json::object{{"measured", measured[i].second}, {"predicted", predicted[i].second}};
  }
  return {{"run", run.name},
          {"ranks", run.measured.ranks},
          {"hosts", run.measured.hosts},
          {"updates", run.measured.updates},
          {"measured_ms", run.measured.step_ms},
          {"predicted_ms", run.predicted.step_ms.median},
          {"error", run.step_error()},
          {"parts", std::move(parts)},
          {"warnings", json::array(run.predicted.warnings.begin(), run.predicted.warnings.end())}};
}

void print_comparison_of(const ComparedRun& run, const Screen& screen) {
  screen.out << fmt::format("{}: {} ranks on {} hosts, {} updates\n", run.name, run.measured.ranks, run.measured.hosts,
                            run.measured.updates);
  Table table({{.title = "PART", .importance = 100},
               {.title = "MEASURED ms", .right = true, .importance = 90},
               {.title = "PREDICTED ms", .right = true, .importance = 90},
               {.title = "ERROR", .right = true, .importance = 90}});
  const auto add = [&table](const char* name, double measured, double predicted) {
    const std::string error = measured > 0 ? fmt::format("{:+.1f} %", 100 * (predicted / measured - 1)) : "-";
    table.add({{name}, {fmt::format("{:.2f}", measured)}, {fmt::format("{:.2f}", predicted)}, {error}});
  };
  add("step", run.measured.step_ms, run.predicted.step_ms.median);
  const auto measured = named_parts(run.measured.parts), predicted = named_parts(run.predicted.parts);
  for (std::size_t i = 0; i < measured.size(); ++i) {
    if (measured[i].second > 0 || predicted[i].second > 0)
      add(measured[i].first, measured[i].second, predicted[i].second);
  }
  table.print(screen);
  for (const std::string& warning : run.predicted.warnings) screen.out << "warning: " << warning << "\n";
}

void compare_predictions(const EmulationCompareArguments& arguments) {
  insight::RankRecord record = arguments.options.read_record();
  if (record.unit != "target tokens") {
    throw UsageFailure(fmt::format("--record: its sizes are {}, expected target tokens", record.unit));
  }
  std::vector<double> errors;
  json::array array;
  const Screen screen = Screen::of_stdout();
  for (const std::string& run : arguments.runs) {
    const ComparedRun compared = compare_run(arguments, record, run);
    errors.push_back(compared.step_error());
    array.push_back(comparison_json(compared));
    if (!arguments.as_json) print_comparison_of(compared, screen);
  }
  const insight::ErrorSummary error = insight::summary_of(errors);
  if (arguments.as_json) {
    fmt::print("{}\n", to_text(json::object{
                           {"runs", std::move(array)}, {"mean_error", error.mean}, {"largest_error", error.largest}}));
  } else {
    screen.out << fmt::format("error of the step: mean {:.1f} %, largest {:.1f} %, {} runs\n", 100 * error.mean,
                              100 * error.largest, error.count);
  }
  if (arguments.output.empty()) return;
  record.step_error = error.mean;
  record.step_comparisons = static_cast<std::int64_t>(error.count);
  write_file_atomically(arguments.output, to_text(insight::to_json(record)) + "\n");
}

}  // namespace

void add_emulate_compare(CLI::App& emulate) {
  CLI::App* command = emulate.add_subcommand(
      "compare", "Compares the predictions of real runs with their step records: the step and each part");
  const auto arguments = std::make_shared<EmulationCompareArguments>();
  EmulationCompareArguments& a = *arguments;
  a.options.setup.updates = 200;
  a.options.declare(*command);
  command->add_option("--measured", a.runs, "folders of real runs")->required();
  command
      ->add_option("--output", a.output,
                   "write the record with the error of these comparisons, which later predictions print")
      ->type_name("FILE");
  command->add_flag("--emulated", a.emulated, "compare emulated runs too");
  command->add_flag("--json", a.as_json, "print JSON");
  command->callback([arguments] { compare_predictions(*arguments); });
}

}  // namespace babelring
