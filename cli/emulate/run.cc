#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/failure.h"
#include "base/files.h"
#include "base/options/usage.h"
#include "base/text.h"
#include "cli/emulate/emulate.h"
#include "cli/emulate/setup_options.h"
#include "cli/runs/table.h"
#include "insight/plot.h"
#include "insight/predict/predict.h"
#include "lab/timeline/merged_trace.h"
#include "nmt/data/batch_plan.h"
#include "nmt/data/manifest.h"

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

namespace {

/// The updates of a real plan.
struct PlannedSizes {
  std::vector<insight::UpdateSizes> sizes = {};  // target tokens of each rank's micro-batch, for the first updates
  std::int64_t updates_per_epoch = 0;
};

/// Plans updates of `tokens` target tokens for each rank's micro-batch on the training set of a prepared folder, and
/// returns the sizes of the first `updates` (at most an epoch). Throws Failure, UsageFailure.
PlannedSizes plan_sizes(const std::string& folder, double tokens, int ranks, int accumulate, std::int64_t updates) {
  const Corpus corpus = Corpus::open(load_manifest(folder), "train");
  const auto per_update = static_cast<std::int64_t>(std::llround(tokens * ranks * accumulate));
  const BatchPlan plan(corpus, PlanOptions{.tokens_per_update = per_update});
  PlannedSizes planned{.updates_per_epoch = plan.updates_per_epoch()};
  DataPosition position;
  for (std::int64_t i = 0; i < std::min(updates, planned.updates_per_epoch); ++i) {
    const UpdatePlan update = plan(position);
    insight::UpdateSizes sizes;
    for (int rank = 0; rank < ranks; ++rank) {
      std::int64_t sum = 0;
      for (const BatchSlice& part : slice(corpus, update, rank, ranks, accumulate)) sum += part.target_tokens;
      sizes.push_back(static_cast<double>(sum) / accumulate);
    }
    planned.sizes.push_back(std::move(sizes));
    position = update.next;
  }
  return planned;
}

struct EmulatedRunArguments {
  SetupOptions options;
  int hosts = 1, ranks_per_host = 1;
  double epochs = 0;
  std::string data, trace;
  bool as_json = false, as_csv = false;
};

void print_parts(const insight::Prediction& prediction) {
  const double step = prediction.step_ms.mean;
  fmt::print("mean      {:.2f} ms, the sum of\n", step);
  for (const auto& [name, ms] : named_parts(prediction.parts)) {
    if (ms > 0) fmt::print("  {:<26} {:>10.2f} ms {:>6.1f} %\n", name, ms, 100 * ms / step);
  }
  if (prediction.parts.waiting_for_slowest > 0) {
    fmt::print("  of exposed communication, waiting for the slowest rank: {:.2f} ms\n",
               prediction.parts.waiting_for_slowest);
  }
}

void print_prediction(const insight::RankRecord& record, const insight::RunSetup& setup,
                      const insight::Prediction& prediction) {
  const insight::Topology& topology = setup.topology;
  fmt::print("{} on {}: {} on {}, {}, {}{}\n", record.model, record.machine, counted(topology.ranks(), "rank"),
             counted(topology.hosts, "host"), word_of(insight::algorithm_choices(), topology.algorithm),
             word_of(wire_choices(), topology.wire), topology.shards_optimizer() ? ", optimizer sharded" : "");
  fmt::print("step      {}\n", step_with_error(record, prediction));
  fmt::print("          p95 {:.2f} ms, p99 {:.2f} ms over {} updates\n", prediction.step_ms.p95, prediction.step_ms.p99,
             setup.updates);
  print_parts(prediction);
  fmt::print("rate      {} {}/s, efficiency {:.1f} %\n", grouped(prediction.size_per_s), record.unit,
             100 * prediction.efficiency);
  if (topology.ranks() > 1) {
    fmt::print("sent      {:.2f} MB by a rank, {:.2f} MB by a host to others, in each update; sums {}take {:.2f} ms\n",
               prediction.rank_megabytes, prediction.host_megabytes, topology.shards_optimizer() ? "and weights " : "",
               prediction.communication_ms);
  }
  fmt::print("time      {} for {} updates\n", duration_text(prediction.seconds), setup.updates);
  for (const std::string& warning : prediction.warnings) fmt::print("warning: {}\n", warning);
}

void run_emulated(const EmulatedRunArguments& arguments) {
  const insight::RankRecord record = arguments.options.read_record();
  insight::RunSetup setup = arguments.options.with_links(arguments.hosts, arguments.ranks_per_host);
  if (!arguments.data.empty()) {
    if (record.unit != "target tokens") {
      throw UsageFailure(fmt::format("--data: the record's sizes are {}, expected target tokens", record.unit));
    }
    const PlannedSizes planned =
        plan_sizes(arguments.data, record.size, setup.topology.ranks(), setup.accumulate, setup.updates);
    setup.sizes = planned.sizes;
    if (arguments.epochs > 0) {
      setup.updates = std::max<std::int64_t>(
          1, static_cast<std::int64_t>(arguments.epochs * static_cast<double>(planned.updates_per_epoch)));
    }
  } else if (arguments.epochs > 0) {
    throw UsageFailure("--epochs: expected --data, the folder whose epochs are meant");
  }
  const auto seed = static_cast<std::uint64_t>(arguments.options.seed);
  const insight::Prediction prediction = insight::predict(record, setup, seed);
  if (!arguments.trace.empty()) write_predicted_timeline(record, setup, seed, arguments.trace);
  if (arguments.as_json) {
    fmt::print("{}\n", to_text(prediction_json(record, setup, prediction)));
  } else if (arguments.as_csv) {
    fmt::print("{}{}", csv_header(), csv_row(setup, prediction));
  } else {
    print_prediction(record, setup, prediction);
  }
}

}  // namespace

void add_emulate_run(CLI::App& emulate) {
  CLI::App* command =
      emulate.add_subcommand("run", "Predicts the step and its parts of a run on several ranks, with the error");
  const auto arguments = std::make_shared<EmulatedRunArguments>();
  EmulatedRunArguments& a = *arguments;
  a.options.declare(*command);
  command->add_option("--hosts", a.hosts, "number of hosts")->check(CLI::Range(1, 100000))->capture_default_str();
  command->add_option("--ranks-per-host", a.ranks_per_host, "ranks on each host")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  command->add_option("--data", a.data, "prepared folder whose real updates are predicted")
      ->check(CLI::ExistingDirectory);
  command->add_option("--epochs", a.epochs, "passes over --data instead of --updates")->check(positive_number);
  command
      ->add_option("--trace", a.trace,
                   "write the first updates as a timeline, FILE.json.gz, for `nmt trace timeline` and Perfetto")
      ->type_name("FILE");
  auto* json = command->add_flag("--json", a.as_json, "print JSON");
  command->add_flag("--csv", a.as_csv, "print CSV")->excludes(json);
  command->callback([arguments] { run_emulated(*arguments); });
}

}  // namespace babelring
