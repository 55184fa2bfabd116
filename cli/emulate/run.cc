#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "base/failure.h"
#include "base/grouped.h"
#include "base/options/usage.h"
#include "cli/emulate/emulate.h"
#include "cli/emulate/planned_sizes.h"
#include "cli/emulate/prediction_output.h"
#include "cli/emulate/setup_options.h"
#include "lab/timeline/predicted_timeline.h"

namespace babelring {
namespace {

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
             word_of(insight::wire_choices(), topology.wire), topology.shards_optimizer() ? ", optimizer sharded" : "");
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
