#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "base/json.h"
#include "base/options/program.h"
#include "base/options/usage.h"
#include "cli/emulate/emulate.h"
#include "cli/runs/table.h"
#include "insight/tables/gpu_profiles.h"

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
  const auto fits = insight::two_gpu_fits(insight::CsvTable::read(arguments.table), &left_out);
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

}  // namespace babelring
