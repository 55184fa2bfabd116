#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>

#include "base/atomic_file.h"
#include "base/failure.h"
#include "base/grouped.h"
#include "cli/sweep/cells.h"
#include "cli/sweep/scripts.h"
#include "cli/sweep/sweep_commands.h"
#include "cli/sweep/sweep_runs.h"

namespace babelring {
namespace {

namespace fs = std::filesystem;

struct ExpandArguments {
  SweepGridChoice grid;
  std::string output;
};

/// Removes the tasks of a grid that was expanded into this folder before, but no others.
void clear_tasks(const fs::path& folder) {
  std::error_code error;
  if (fs::exists(folder / "tasks", error) && !fs::exists(folder / sweep_task_table, error)) {
    throw UsageFailure(fmt::format("--output: {} is there without the {} of an earlier sweep; expected another folder",
                                   (folder / "tasks").string(), sweep_task_table));
  }
  fs::remove_all(folder / "tasks", error);
  for (const char* part : {"tasks", "logs"}) {
    if (!error) fs::create_directories(folder / part, error);
  }
  if (error) throw UsageFailure(fmt::format("--output: {}: {}", folder.string(), error.message()));
}

/// One line for each task: its number, cell and coordinates.
std::string task_table(const std::vector<const SweepCell*>& tasks) {
  std::string table = "task\tcell";
  for (const auto& [key, value] : tasks.front()->coordinates) table += "\t" + key;
  table += "\n";
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    table += fmt::format("{}\t{}", i + 1, tasks[i]->id);
    for (const auto& [key, value] : tasks[i]->coordinates) table += "\t" + value;
    table += "\n";
  }
  return table;
}

void write_script(const fs::path& file, const std::string& text) {
  write_file_atomically(file, text);
  fs::permissions(file, fs::perms::owner_exec | fs::perms::group_exec | fs::perms::others_exec, fs::perm_options::add);
}

void expand_grid(const ExpandArguments& arguments) {
  const SweepGrid grid = read_sweep_grid(read_file(arguments.grid.file), arguments.grid.file);
  const std::vector<SweepCell> cells = expand_sweep(grid);
  report_left_out(cells, arguments.grid.strict);
  std::vector<const SweepCell*> tasks;
  for (const SweepCell& cell : cells) {
    if (cell.problem.empty()) tasks.push_back(&cell);
  }
  const fs::path folder = fs::absolute(arguments.output).lexically_normal();
  clear_tasks(folder);
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    write_file_atomically(folder / "tasks" / fmt::format("{}.yaml", i + 1), tasks[i]->config);
    const std::vector<std::string> labels = tasks[i]->labels(grid.name);
    write_file_atomically(folder / "tasks" / fmt::format("{}.labels", i + 1),
                          fmt::format("{}\n", fmt::join(labels, "\n")));
  }
  write_file_atomically(folder / sweep_task_table, task_table(tasks));
  write_script(folder / "sweep.sh", local_sweep_script(grid, folder));
  write_script(folder / "sweep.sbatch", slurm_sweep_script(grid, folder, tasks.size()));
  fmt::print("{}: {}, {} left out\n", grid.name, counted(static_cast<double>(tasks.size()), "task"),
             cells.size() - tasks.size());
  fmt::print("here:     {}\nin Slurm: sbatch {}\n", (folder / "sweep.sh").string(), (folder / "sweep.sbatch").string());
}

}  // namespace

void add_sweep_expand(CLI::App& sweep) {
  CLI::App* command = sweep.add_subcommand(
      "expand", "Writes a configuration for each cell of a grid, and scripts that train them here or in Slurm");
  const auto arguments = std::make_shared<ExpandArguments>();
  arguments->grid.declare(*command);
  command->add_option("--output", arguments->output, "folder for tasks, scripts and runs")
      ->required()
      ->type_name("DIR");
  command->callback([arguments] { expand_grid(*arguments); });
}

}  // namespace babelring
