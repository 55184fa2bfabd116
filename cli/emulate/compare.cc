#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <memory>

#include "base/failure.h"
#include "base/files.h"
#include "base/options/usage.h"
#include "base/text.h"
#include "cli/emulate/emulate.h"
#include "cli/emulate/measured_setting.h"
#include "cli/runs/table.h"
#include "insight/predict/fits.h"
#include "insight/predict/predict.h"

namespace babelring {
namespace {

constexpr std::size_t min_settings = 3;                       // of --leave-one-out
constexpr double large_part = 0.1, min_relative_part = 0.01;  // of the step

struct EmulationCompareArguments {
  SetupOptions options;
  std::vector<std::string> runs;
  std::string output;
  bool as_json = false, emulated = false, leave_one_out = false;
};

/// A setting beside its prediction. Times are medians over its runs; the error is that of the median run, each compared
/// with the prediction from what was measured beside it.
struct ComparedSetting {
  std::string name;
  int ranks = 0, hosts = 0;
  std::size_t runs = 0, updates = 0;
  double measured_ms = 0, predicted_ms = 0, error = 0;
  insight::StepParts measured, predicted;
  std::vector<std::string> warnings;
};

double median_of(std::vector<double> values) {
  return insight::quantiles_of(std::move(values)).median;
}

ComparedSetting compare_setting(const MeasuredSetting& setting, const insight::Calibration* calibration,
                                std::uint64_t seed) {
  const PairedRun& first = setting.runs.front();
  ComparedSetting compared{
      .name = setting.name, .ranks = first.measured.ranks, .hosts = first.measured.hosts, .runs = setting.runs.size()};
  std::vector<insight::Prediction> predictions;
  std::vector<double> measured, predicted, errors;
  for (const PairedRun& run : setting.runs) {
    insight::RankRecord record = run.record;
    if (calibration != nullptr) record.calibration = *calibration;
    predictions.push_back(insight::predict(record, run.setup, seed));
    measured.push_back(run.measured.step_ms);
    predicted.push_back(predictions.back().step_ms.median);
    errors.push_back(predicted.back() / measured.back() - 1);
    compared.updates += run.measured.updates;
  }
  compared.measured_ms = median_of(measured);
  compared.predicted_ms = median_of(predicted);
  compared.error = median_of(errors);
  compared.warnings = predictions.front().warnings;
  insight::StepParts::each([&](double insight::StepParts::* part) {
    std::vector<double> of_runs, of_predictions;
    for (const PairedRun& run : setting.runs) of_runs.push_back(run.measured.parts.*part);
    for (const insight::Prediction& prediction : predictions) of_predictions.push_back(prediction.parts.*part);
    compared.measured.*part = median_of(std::move(of_runs));
    compared.predicted.*part = median_of(std::move(of_predictions));
  });
  return compared;
}

/// The calibration that all settings but `left_out` give; of all if that is absent.
insight::Calibration calibrate_without(const std::vector<MeasuredSetting>& settings, const MeasuredSetting* left_out,
                                       std::uint64_t seed) {
  std::vector<insight::CalibrationRun> runs;
  for (const MeasuredSetting& setting : settings) {
    if (&setting == left_out) continue;
    for (const PairedRun& run : setting.runs) runs.push_back({run.record, run.setup, run.measured.step_ms});
  }
  return insight::calibrate(runs, seed);
}

json::object comparison_json(const ComparedSetting& compared) {
  json::object parts;
  const auto measured = named_parts(compared.measured), predicted = named_parts(compared.predicted);
  for (std::size_t i = 0; i < measured.size(); ++i) {
    parts[measured[i].first] = json::object{{"measured", measured[i].second}, {"predicted", predicted[i].second}};
  }
  return {{"run", compared.name},
          {"ranks", compared.ranks},
          {"hosts", compared.hosts},
          {"runs", compared.runs},
          {"updates", compared.updates},
          {"measured_ms", compared.measured_ms},
          {"predicted_ms", compared.predicted_ms},
          {"error", compared.error},
          {"parts", std::move(parts)},
          {"warnings", json::array(compared.warnings.begin(), compared.warnings.end())}};
}

/// Relative for a part that takes time in the step, otherwise in ms: of nearly nothing, any part is a multiple.
std::string part_error(double measured, double predicted, double step_ms) {
  if (measured < min_relative_part * step_ms) return fmt::format("{:+.2f} ms", predicted - measured);
  return fmt::format("{:+.1f} %", 100 * (predicted / measured - 1));
}

void print_comparison_of(const ComparedSetting& compared, const Screen& screen) {
  screen.out << fmt::format("{}: {} on {}, {}\n", compared.name, counted(compared.ranks, "rank"),
                            counted(compared.hosts, "host"), counted(static_cast<double>(compared.updates), "update"));
  Table table({{.title = "PART", .importance = 100},
               {.title = "MEASURED ms", .right = true, .importance = 90},
               {.title = "PREDICTED ms", .right = true, .importance = 90},
               {.title = "ERROR", .right = true, .importance = 90}});
  const auto add = [&table](const char* name, double measured, double predicted, const std::string& error) {
    table.add({{name}, {fmt::format("{:.2f}", measured)}, {fmt::format("{:.2f}", predicted)}, {error}});
  };
  add("step", compared.measured_ms, compared.predicted_ms, fmt::format("{:+.1f} %", 100 * compared.error));
  const auto measured = named_parts(compared.measured), predicted = named_parts(compared.predicted);
  for (std::size_t i = 0; i < measured.size(); ++i) {
    const auto& [name, ms] = measured[i];
    if (ms > 0 || predicted[i].second > 0) {
      add(name, ms, predicted[i].second, part_error(ms, predicted[i].second, compared.measured_ms));
    }
  }
  table.print(screen);
  for (const std::string& warning : compared.warnings) screen.out << "warning: " << warning << "\n";
}

/// The relative errors of the parts that take more than a tenth of the step.
std::vector<double> large_part_errors(const ComparedSetting& compared) {
  std::vector<double> errors;
  const auto measured = named_parts(compared.measured), predicted = named_parts(compared.predicted);
  for (std::size_t i = 0; i < measured.size(); ++i) {
    const double ms = measured[i].second;
    if (ms > large_part * compared.measured_ms) errors.push_back(predicted[i].second / ms - 1);
  }
  return errors;
}

/// A line for each setting.
void print_settings(const std::vector<ComparedSetting>& settings, const Screen& screen) {
  Table table({{.title = "SETTING", .importance = 100},
               {.title = "HOSTS", .right = true, .importance = 80},
               {.title = "RANKS", .right = true, .importance = 80},
               {.title = "RUNS", .right = true, .importance = 70},
               {.title = "MEASURED ms", .right = true, .importance = 90},
               {.title = "PREDICTED ms", .right = true, .importance = 90},
               {.title = "ERROR", .right = true, .importance = 100},
               {.title = "LARGEST OF A PART", .right = true, .importance = 85}});
  for (const ComparedSetting& setting : settings) {
    table.add({{setting.name},
               {std::to_string(setting.hosts)},
               {std::to_string(setting.ranks)},
               {std::to_string(setting.runs)},
               {fmt::format("{:.1f}", setting.measured_ms)},
               {fmt::format("{:.1f}", setting.predicted_ms)},
               {fmt::format("{:+.1f} %", 100 * setting.error)},
               {fmt::format("{:.1f} %", 100 * insight::summary_of(large_part_errors(setting)).largest)}});
  }
  table.print(screen);
}

json::object calibration_json(const insight::Calibration& calibration) {
  return {{"crowding", calibration.crowding},
          {"busy_share", calibration.busy_share},
          {"inside_share", calibration.inside_share},
          {"between_share", calibration.between_share},
          {"sum_overhead_ms", calibration.sum_overhead_ms}};
}

std::vector<ComparedSetting> compare_all(const EmulationCompareArguments& arguments,
                                         const std::vector<MeasuredSetting>& settings) {
  const auto seed = static_cast<std::uint64_t>(arguments.options.seed);
  std::vector<ComparedSetting> compared;
  for (const MeasuredSetting& setting : settings) {
    if (arguments.leave_one_out) {
      const insight::Calibration others = calibrate_without(settings, &setting, seed);
      compared.push_back(compare_setting(setting, &others, seed));
    } else {
      compared.push_back(compare_setting(setting, nullptr, seed));
    }
  }
  return compared;
}

void print_comparisons(const EmulationCompareArguments& arguments, const std::vector<ComparedSetting>& compared,
                       const insight::ErrorSummary& error, const insight::Calibration& calibration) {
  if (arguments.as_json) {
    json::array array;
    for (const ComparedSetting& setting : compared) array.push_back(comparison_json(setting));
    json::object object{{"runs", std::move(array)}, {"mean_error", error.mean}, {"largest_error", error.largest}};
    if (arguments.leave_one_out) object["calibration"] = calibration_json(calibration);
    fmt::print("{}\n", to_text(object));
    return;
  }
  const Screen screen = Screen::of_stdout();
  if (arguments.leave_one_out) {
    print_settings(compared, screen);
    screen.out << fmt::format("calibration of all: {}\n", to_text(calibration_json(calibration)));
  } else {
    for (const ComparedSetting& setting : compared) print_comparison_of(setting, screen);
  }
  screen.out << fmt::format("error of the step: mean {:.1f} %, largest {:.1f} %, {} {}\n", 100 * error.mean,
                            100 * error.largest, error.count,
                            arguments.leave_one_out ? "settings, each predicted from the others"
                            : error.count == 1      ? "run"
                                                    : "runs");
}

void compare_predictions(const EmulationCompareArguments& arguments) {
  insight::RankRecord record = arguments.options.read_record();
  std::vector<MeasuredSetting> settings;
  for (const std::filesystem::path& run :
       without_repeats({arguments.runs.begin(), arguments.runs.end()}, "--measured")) {
    settings.push_back(read_setting(run, arguments.options, record, arguments.emulated));
  }
  if (arguments.leave_one_out && settings.size() < min_settings) {
    throw UsageFailure(fmt::format("--leave-one-out: found {} settings in --measured, expected at least {}",
                                   settings.size(), min_settings));
  }
  const std::vector<ComparedSetting> compared = compare_all(arguments, settings);
  std::vector<double> errors;
  for (const ComparedSetting& setting : compared) errors.push_back(setting.error);
  const insight::ErrorSummary error = insight::summary_of(errors);
  if (arguments.leave_one_out) {
    record.calibration = calibrate_without(settings, nullptr, static_cast<std::uint64_t>(arguments.options.seed));
  }
  print_comparisons(arguments, compared, error, record.calibration);
  if (arguments.output.empty()) return;
  record.step_error = error.mean;
  record.step_comparisons = static_cast<std::int64_t>(error.count);
  record.step_ranks = std::ranges::max(compared, {}, &ComparedSetting::ranks).ranks;
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
  command
      ->add_option("--measured", a.runs,
                   "folders of real runs, or folders whose subfolders are runs of one setting; rank.json, inside.json "
                   "and between.json in the folder of a run replace --record, --inside and --between for it")
      ->required();
  command->add_flag("--leave-one-out", a.leave_one_out,
                    "calibrate links and contention on all settings but the one predicted");
  command
      ->add_option("--output", a.output,
                   "write the record with the error of these comparisons, which later predictions print, and with "
                   "--leave-one-out the calibration of all settings")
      ->type_name("FILE");
  command->add_flag("--emulated", a.emulated, "compare emulated runs too");
  command->add_flag("--json", a.as_json, "print JSON");
  command->callback([arguments] { compare_predictions(*arguments); });
}

}  // namespace babelring
