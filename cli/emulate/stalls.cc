#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>

#include "base/atomic_file.h"
#include "base/failure.h"
#include "base/usage.h"
#include "cli/emulate/emulate.h"
#include "insight/tables/stalls.h"

namespace babelring {
namespace {

namespace fs = std::filesystem;

struct StallsArguments {
  int figure = 0;
  fs::path data, output;
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

void draw_figure(const StallsArguments& arguments) {
  const insight::Figure figure = make_figure(arguments);
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
      "stalls", "Draws figures about data stalls from tables, and predicts their points with the error");
  const auto arguments = std::make_shared<StallsArguments>();
  StallsArguments& a = *arguments;
  command
      ->add_option(
          "--figure", a.figure,
          "3: fetch stalls; 4: epoch by cached share; 5: loader workers; 6: preparation stalls; 9: several GPUs")
      ->required()
      ->check(CLI::IsMember({3, 4, 5, 6, 9}));
  command->add_option("--data", a.data, "folder with figureN.csv; for 9 with one_and_two_gpus.csv and compute.csv")
      ->required()
      ->check(CLI::ExistingDirectory);
  command->add_option("--output", a.output, "folder for figureN.csv and figureN.svg")
      ->required()
      ->check(folder_or_nothing);
  command->add_option("--model", a.model, "model of figure 9")->capture_default_str();
  command->add_option("--files", a.files, "files of an epoch in figure 5")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--start-up", a.start_up_s, "seconds before the first batch of an epoch in figure 5")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->callback([arguments] { draw_figure(*arguments); });
}

}  // namespace babelring
