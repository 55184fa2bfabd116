#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <filesystem>
#include <memory>
#include <sstream>

#include "base/failure.h"
#include "base/files.h"
#include "base/json.h"
#include "base/log.h"
#include "base/options/program.h"
#include "base/options/usage.h"
#include "base/text.h"
#include "cli/emulate/emulate.h"
#include "cli/emulate/setup_options.h"
#include "cli/runs/table.h"
#include "insight/tables/gpu_profiles.h"
#include "insight/tables/stalls.h"
#include "lab/own_stalls.h"

namespace babelring {
namespace {

struct GpusArguments {
  std::string table;
  bool as_json = false;
};

json::object two_gpu_json(const insight::TwoGpuFit& fit) {
  json::array points;
  for (const insight::TwoGpuPoint& point : fit.points) {
    points.push_back(json::object{{"batch", point.batch},
                                  {"measured_ms", point.measured_ms},
                                  {"half_ms", point.half_ms},
                                  {"scatter_ms", fit.scatter_fixed_ms + fit.scatter_ms_per_image * point.batch},
                                  {"fixed_ms", fit.fixed_ms},
                                  {"gather_ms", fit.ms_per_image * point.batch},
                                  {"predicted_ms", point.predicted_ms},
                                  {"by_halving_ms", point.by_halving_ms}});
  }
  return {{"gpu", fit.gpu},
          {"model", fit.model},
          {"points", std::move(points)},
          {"mean_error", fit.error.mean},
          {"largest_error", fit.error.largest},
          {"largest_error_by_halving", fit.halving.largest}};
}

void print_fit(const insight::TwoGpuFit& fit, const Screen& screen) {
  screen.out << fmt::format(
      "{} on two {}; replicating and reducing {:.2f} ms, error of leaving one out: mean {:.2f} %, "
      "largest {:.2f} %; by t(B) / 2 largest {:.1f} %\n",
      fit.model, fit.gpu, fit.fixed_ms, 100 * fit.error.mean, 100 * fit.error.largest, 100 * fit.halving.largest);
  Table table({{.title = "BATCH", .right = true, .importance = 100},
               {.title = "MEASURED ms", .right = true, .importance = 90},
               {.title = "t(B/2)", .right = true, .importance = 90},
               {.title = "SCATTER", .right = true, .importance = 90},
               {.title = "REPLICATE, REDUCE", .right = true, .importance = 90},
               {.title = "GATHER", .right = true, .importance = 90},
               {.title = "PREDICTED ms", .right = true, .importance = 90},
               {.title = "ERROR", .right = true, .importance = 90}});
  const auto ms = [](double value) { return Table::Cell{fmt::format("{:.2f}", value)}; };
  for (const insight::TwoGpuPoint& point : fit.points) {
    table.add({{fmt::format("{}", point.batch)},
               ms(point.measured_ms),
               ms(point.half_ms),
               ms(fit.scatter_fixed_ms + fit.scatter_ms_per_image * point.batch),
               ms(fit.fixed_ms),
               ms(fit.ms_per_image * point.batch),
               ms(point.predicted_ms),
               {fmt::format("{:+.2f} %", 100 * (point.predicted_ms / point.measured_ms - 1))}});
  }
  table.print(screen);
}

void show_gpus(const GpusArguments& arguments) {
  std::vector<std::string> left_out;
  const auto fits = insight::two_gpu_fits(CsvTable::read(arguments.table), &left_out);
  for (const std::string& line : left_out) print_error(fmt::format("left out: {}\n", line));
  if (!arguments.as_json) {
    for (const insight::TwoGpuFit& fit : fits) print_fit(fit, Screen::of_stdout());
    return;
  }
  json::array array;
  for (const insight::TwoGpuFit& fit : fits) array.push_back(two_gpu_json(fit));
  fmt::print("{}\n", to_text(json::object{{"fits", std::move(array)}}));
}

}  // namespace

void add_emulate_gpus(CLI::App& emulate) {
  CLI::App* command = emulate.add_subcommand(
      "gpus", "Takes the time of two GPUs in one process apart: computing, scattering, replicating and gathering");
  const auto arguments = std::make_shared<GpusArguments>();
  command
      ->add_option("--table", arguments->table,
                   "CSV with the columns model, gpu, gpus (1 or 2), total_batch, step_compute_ms and scatter_ms")
      ->required()
      ->check(existing_file)
      ->type_name("FILE");
  command->add_flag("--json", arguments->as_json, "print JSON");
  command->callback([arguments] { show_gpus(*arguments); });
}

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

CsvTable table_in(const fs::path& folder, const std::string& name) {
  const fs::path file = folder / (name + ".csv");
  if (!fs::is_regular_file(file)) {
    throw UsageFailure(fmt::format("--data: found no {}, expected the table in this folder", file.string()));
  }
  return CsvTable::read(file.string());
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
  std::istringstream fractions(arguments.cached);
  for (std::string item; std::getline(fractions, item, ',');) {
    const auto fraction = parse_decimal<double>(item);
    if (!fraction || !(*fraction >= 0 && *fraction <= 1)) {
      throw UsageFailure(
          fmt::format("--cached: found '{}', expected fractions from 0 to 1, such as 0,0.5,1", printable(item)));
    }
    plan.cached.push_back(*fraction);
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
          "3: fetch stalls; 4: epoch by cached part; 5: loader workers; 6: preparation stalls; 9: several GPUs")
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
