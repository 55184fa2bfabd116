#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "base/atomic_file.h"
#include "base/failure.h"
#include "base/grouped.h"
#include "cli/emulate/emulate.h"
#include "cli/emulate/prediction_output.h"
#include "cli/emulate/setup_options.h"
#include "cli/runs/table.h"
#include "insight/plot.h"

namespace babelring {
namespace {

struct ScaleArguments {
  SetupOptions options;
  std::string ranks = "1,2,4,8,16,32", svg;
  int ranks_per_host = 1;
  bool strong = false, weak = false, as_json = false, as_csv = false;
};

struct ScalePoint {
  insight::RunSetup setup;
  insight::Prediction prediction;
  double efficiency = 0;  // rate over (ranks · rate of one rank with the same update, or with the same size)
};

/// The setup for a number of ranks: hosts are filled one after the other.
insight::RunSetup setup_of(const ScaleArguments& arguments, const insight::RankRecord& record, int ranks) {
  const int on_host = std::min(ranks, arguments.ranks_per_host);
  if (ranks % on_host != 0) {
    throw UsageFailure(fmt::format("--ranks: found {}, expected a multiple of --ranks-per-host, {}", ranks, on_host));
  }
  insight::RunSetup setup = arguments.options.with_links(ranks / on_host, on_host);
  if (arguments.strong) setup.sizes = {{record.size / ranks}};
  return setup;
}

std::vector<ScalePoint> scale_points(const ScaleArguments& arguments, const insight::RankRecord& record) {
  const auto seed = static_cast<std::uint64_t>(arguments.options.seed);
  const double alone = insight::predict(record, setup_of(arguments, record, 1), seed).size_per_s;
  std::vector<ScalePoint> points;
  for (const int ranks : parse_counts(arguments.ranks, "--ranks", 1'000'000)) {
    ScalePoint point{.setup = setup_of(arguments, record, ranks), .prediction = {}};
    point.prediction = insight::predict(record, point.setup, seed);
    point.efficiency = point.prediction.size_per_s / (alone * ranks);
    points.push_back(std::move(point));
  }
  return points;
}

void write_plot(const ScaleArguments& arguments, const insight::RankRecord& record,
                const std::vector<ScalePoint>& points) {
  insight::Plot plot{
      .title = fmt::format("{} on {}: {} scaling", record.model, record.machine, arguments.strong ? "strong" : "weak"),
      .x_label = "ranks",
      .y_label = "efficiency, %",
      .note = "predicted; dashed: by the errors of compute times and links",
      .log_x = true,
      .series = {{"efficiency", {}}, {"low", {}, true}, {"high", {}, true}}};
  for (const ScalePoint& point : points) {
    const insight::Prediction& prediction = point.prediction;
    plot.x.push_back(point.setup.topology.ranks());
    const double percent = 100 * point.efficiency;
    plot.series[0].values.push_back(percent);
    plot.series[1].values.push_back(percent * prediction.step_ms.median / prediction.high_ms);
    plot.series[2].values.push_back(percent * prediction.step_ms.median / prediction.low_ms);
  }
  write_file_atomically(arguments.svg, insight::svg_of(plot));
}

void print_points(const insight::RankRecord& record, const std::vector<ScalePoint>& points) {
  Table table({{.title = "RANKS", .right = true, .importance = 100},
               {.title = "HOSTS", .right = true, .importance = 90},
               {.title = "STEP", .importance = 90},
               {.title = record.unit + "/s", .right = true, .importance = 90},
               {.title = "EFFICIENCY", .right = true, .importance = 90},
               {.title = "EXPOSED ms", .right = true, .importance = 80}});
  for (const auto& [setup, prediction, efficiency] : points) {
    table.add({{std::to_string(setup.topology.ranks())},
               {std::to_string(setup.topology.hosts)},
               {step_with_error(record, prediction)},
               {grouped(prediction.size_per_s)},
               {fmt::format("{:.1f} %", 100 * efficiency)},
               {fmt::format("{:.2f}", prediction.parts.exposed_communication)}});
  }
  const Screen screen = Screen::of_stdout();
  table.print(screen);
  for (const ScalePoint& point : points) {
    for (const std::string& warning : point.prediction.warnings) {
      screen.out << fmt::format("warning, {}: {}\n", counted(point.setup.topology.ranks(), "rank"), warning);
    }
  }
}

void predict_scaling(const ScaleArguments& arguments) {
  const insight::RankRecord record = arguments.options.read_record();
  const std::vector<ScalePoint> points = scale_points(arguments, record);
  if (!arguments.svg.empty()) write_plot(arguments, record, points);
  if (arguments.as_json) {
    json::array array;
    for (const ScalePoint& point : points) {
      json::object object = prediction_json(record, point.setup, point.prediction);
      object["efficiency"] = point.efficiency;
      array.push_back(std::move(object));
    }
    fmt::print("{}\n", to_text(json::object{{"points", std::move(array)}}));
  } else if (arguments.as_csv) {
    fmt::print("{}", csv_header());
    for (const ScalePoint& point : points) {
      insight::Prediction prediction = point.prediction;
      prediction.efficiency = point.efficiency;
      fmt::print("{}", csv_row(point.setup, prediction));
    }
  } else {
    print_points(record, points);
  }
}

}  // namespace

void add_emulate_scale(CLI::App& emulate) {
  CLI::App* command = emulate.add_subcommand("scale", "Predicts how a run scales with the number of ranks");
  const auto arguments = std::make_shared<ScaleArguments>();
  ScaleArguments& a = *arguments;
  a.options.setup.updates = 200;
  a.options.declare(*command);
  command->add_option("--ranks", a.ranks, "numbers of ranks, separated by commas")->capture_default_str();
  command->add_option("--ranks-per-host", a.ranks_per_host, "max ranks on each host")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  auto* strong = command->add_flag("--strong", a.strong, "divide the recorded update among the ranks");
  command->add_flag("--weak", a.weak, "each rank has the recorded update (the default)")->excludes(strong);
  command->add_option("--svg", a.svg, "write a plot of the efficiency")->type_name("FILE");
  auto* json = command->add_flag("--json", a.as_json, "print JSON");
  command->add_flag("--csv", a.as_csv, "print CSV")->excludes(json);
  command->callback([arguments] { predict_scaling(*arguments); });
}

}  // namespace babelring
