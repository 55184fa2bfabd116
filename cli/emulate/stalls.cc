#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <filesystem>
#include <memory>
#include <sstream>

#include "base/atomic_file.h"
#include "base/failure.h"
#include "base/log.h"
#include "base/parse_number.h"
#include "base/options/usage.h"
#include "cli/emulate/emulate.h"
#include "cli/emulate/setup_options.h"
#include "insight/tables/stalls.h"
#include "lab/own_stalls.h"

namespace babelring {
namespace {

namespace fs = std::filesystem;

struct StallsArguments {
  int figure = 0;
  fs::path data, output;
  bool own = false;
  std::string cached = "0,0.25,0.5,0.75,1", workers = "1,2,4", read_rate;
  OwnStallsPlan plan;
  std::string model = "alexnet";
  double files = 87473, start_up_s = 3;
};

insight::CsvTable table_in(const fs::path& folder, const std::string& name) {
  const fs::path file = folder / (name + ".csv");
  if (!fs::is_regular_file(file)) {
    throw UsageFailure(fmt::format("--data: found no {}, expected the table in this folder", file.string()));
  }
  return insight::CsvTable::read(file.string());
}

insight::Figure make_figure(const StallsArguments& arguments) {
  const auto table = [&](const std::string& name) { return table_in(arguments.data, name); };
  switch (arguments.figure) {
    case 3:
      return insight::fetch_stalls(table("figure3"));
    case 4:
      return insight::epoch_splits(table("figure4"));
    case 5:
      return insight::loader_throughput(table("figure5"), arguments.files, arguments.start_up_s);
    case 6:
      return insight::preparation_stalls(table("figure6"));
    default:
      return insight::gpu_scaling(table("one_and_two_gpus"), table("compute"), arguments.model);
  }
}

/// Measures the data of --data with our own pipeline.
insight::Figure measure_own(const StallsArguments& arguments) {
  OwnStallsPlan plan = arguments.plan;
  plan.folder = arguments.data;
  plan.workers = parse_counts(arguments.workers, "--workers", 1024);
  std::istringstream shares(arguments.cached);
  for (std::string item; std::getline(shares, item, ',');) {
    const auto share = parse_decimal<double>(item);
    if (!share || !(*share >= 0 && *share <= 1)) {
      throw UsageFailure(
          fmt::format("--cached: found '{}', expected shares from 0 to 1, such as 0,0.5,1", printable(item)));
    }
    plan.cached.push_back(*share);
  }
  if (!arguments.read_rate.empty()) {
    const std::string_view text = arguments.read_rate;
    const auto rate = text.ends_with("MB") ? parse_decimal<double>(text.substr(0, text.size() - 2)) : std::nullopt;
    if (!rate || !(*rate > 0)) {
      throw UsageFailure(fmt::format("--read-rate: found '{}', expected MB a second above 0, such as 50MB",
                                     printable(arguments.read_rate)));
    }
    plan.read_bytes_per_second = *rate * 1e6;
  }
  return insight::own_stalls(measure_own_stalls(plan));
}

void draw_figure(const StallsArguments& arguments) {
  if (arguments.own == (arguments.figure != 0)) {
    throw UsageFailure(fmt::format("expected one of --figure and --own, found {}", arguments.own ? "both" : "none"));
  }
  const insight::Figure figure = arguments.own ? measure_own(arguments) : make_figure(arguments);
  fs::create_directories(arguments.output);
  const auto write = [&](const std::string& name, const std::string& content) {
    write_file_atomically(arguments.output / name, content);
    fmt::print("{}\n", (arguments.output / name).string());
  };
  write(figure.name + ".csv", insight::csv_of(figure));
  for (std::size_t i = 0; i < figure.plots.size(); ++i) {
    const std::string number = figure.plots.size() > 1 ? fmt::format("-{}", i + 1) : "";
    write(fmt::format("{}{}.svg", figure.name, number), insight::svg_of(figure.plots[i]));
  }
  for (const std::string& note : figure.notes) fmt::print("{}\n", note);
}

}  // namespace

void add_emulate_stalls(CLI::App& emulate) {
  CLI::App* command = emulate.add_subcommand(
      "stalls",
      "Draws figures about data stalls from tables, and predicts their points with the error; or measures our own");
  const auto arguments = std::make_shared<StallsArguments>();
  StallsArguments& a = *arguments;
  command
      ->add_option(
          "--figure", a.figure,
          "3: fetch stalls; 4: epoch by cached share; 5: loader workers; 6: preparation stalls; 9: several GPUs")
      ->check(CLI::IsMember({3, 4, 5, 6, 9}));
  command->add_flag("--own", a.own, "measure epochs of --data with our own pipeline, waiting instead of computing");
  command
      ->add_option("--data", a.data,
                   "folder with figureN.csv, for 9 with one_and_two_gpus.csv and compute.csv; with --own, a folder of "
                   "nmt prepare or nmt gssm data")
      ->required()
      ->check(CLI::ExistingDirectory);
  command->add_option("--output", a.output, "folder for figureN.csv and figureN.svg, or own.csv and own-N.svg")
      ->required()
      ->check(folder_or_nothing);
  command->add_option("--model", a.model, "model of figure 9")->capture_default_str();
  command->add_option("--files", a.files, "files of an epoch in figure 5")
      ->check(positive_number)
      ->capture_default_str();
  command->add_option("--start-up", a.start_up_s, "seconds before the first batch of an epoch in figure 5")
      ->check(CLI::Range(0.0, 1e9))
      ->capture_default_str();
  command->add_option("--cached", a.cached, "with --own: parts of the data in memory at the start of an epoch")
      ->capture_default_str();
  command->add_option("--workers", a.workers, "with --own: numbers of threads that make updates")
      ->capture_default_str();
  command->add_option("--read-rate", a.read_rate, "with --own: rate of a slower storage; default: the storage as it is")
      ->type_name("50MB");
  command->add_option("--compute-ms", a.plan.compute_ms, "with --own: time of computing an update")
      ->check(CLI::Range(0.0, 3.6e6))
      ->capture_default_str();
  command->add_option("--tokens-per-update", a.plan.tokens_per_update, "with --own: target tokens of an update")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 30))
      ->capture_default_str();
  command->add_option("--updates", a.plan.max_updates, "with --own: max updates of an epoch; 0: all of them")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->callback([arguments] { draw_figure(*arguments); });
}

}  // namespace babelring
