#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>

#include "base/failure.h"
#include "base/files.h"
#include "base/text.h"
#include "cli/sweep/grid.h"
#include "cli/sweep/sweep_runs.h"

namespace babelring {
namespace {

/// Names the folder, the worker and where it reports, as both scripts need them, and ends if a program is missing.
std::string preamble(const SweepGrid& grid, const std::filesystem::path& folder) {
  return fmt::format(
      "folder={1}\n"
      "fail() {{ echo \"sweep {0}: $1\" >&2 && exit 2; }}\n"
      "# Installed, the worker has the longer name; a build folder has it as `worker`.\n"
      "worker=$(command -v babelring-worker || command -v worker) ||\n"
      "  fail 'no worker in PATH; install Babelring, or put the folder bin of its build into PATH'\n"
      "[ -n \"$(command -v mpirun)\" ] || fail 'no mpirun in PATH; install Open MPI'\n"
      "# Open MPI requires both to run as root.\n"
      "if [ \"$(id -u)\" -eq 0 ]; then export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; fi\n"
      "reporting=()\n"
      "if [ -n \"${{BABELRING_SERVER:-}}\" ]; then reporting=(--server \"$BABELRING_SERVER\"); fi\n"
      "if [ -n \"${{BABELRING_TOKEN_FILE:-}}\" ]; then reporting+=(--token-file \"$BABELRING_TOKEN_FILE\"); fi\n",
      grid.name, shell_quoted(folder.string()));
}

/// Trains cell $cell by the configuration of task $task.
std::string training_command(std::int64_t ranks) {
  return fmt::format(
      "mpirun -np {} --bind-to none \"$worker\" --config \"$folder/tasks/$task.yaml\" --run-dir \"$folder/runs/$cell\" "
      "\\\n"
      "    \"${{labels[@]/#/--label=}}\" \"${{reporting[@]}}\" \"$@\"",
      ranks);
}

/// The options of the grid's `slurm` as lines of a batch script.
std::string sbatch_options(const SweepGrid& grid) {
  std::string lines;
  for (const auto& [option, value] : grid.slurm) lines += fmt::format("#SBATCH --{}={}\n", option, value);
  return lines;
}

/// A bash script that trains the tasks of `folder` one after another.
std::string local_sweep_script(const SweepGrid& grid, const std::filesystem::path& folder) {
  return fmt::format(
      "#!/usr/bin/env bash\n"
      "# Trains the cells of sweep {0} one after another, each in runs/CELL. Arguments go to the worker: key=value.\n"
      "# Started again, it continues where it ended: a cell that is trained ends at once.\n"
      "set -uo pipefail\n"
      "{1}"
      "failed=()\n"
      "trap 'exit 130' INT TERM # once the worker has saved\n"
      "while IFS=$'\\t' read -r task cell _; do\n"
      "  echo \"task $task: cell $cell\"\n"
      "  mapfile -t labels <\"$folder/tasks/$task.labels\"\n"
      "  {2} </dev/null && continue\n"
      "  failed+=(\"$task\")\n"
      "  if [ ${{#failed[@]}} -eq 3 ] && [ ! -e \"$folder/runs\" ]; then\n"
      "    fail \"tasks ${{failed[*]}} failed before they began to train; the others would, too\"\n"
      "  fi\n"
      "done < <(tail -n +2 \"$folder/tasks.tsv\")\n"
      "[ ${{#failed[@]}} -eq 0 ] || {{ echo \"sweep {0}: failed tasks: ${{failed[*]}}\" >&2 && exit 1; }}\n",
      grid.name, preamble(grid, folder), training_command(grid.ranks));
}

/// A Slurm job array with a task for each of the `tasks` configurations of `folder`.
std::string slurm_sweep_script(const SweepGrid& grid, const std::filesystem::path& folder, std::size_t tasks) {
  return fmt::format(
      "#!/usr/bin/env bash\n"
      "# Trains the cells of sweep {0} as a Slurm job array, each in runs/CELL. Arguments go to the worker: "
      "key=value.\n"
      "# At most eight at a time: sbatch --array=1-{1}%8 sweep.sbatch. Submitted again, it continues where it ended.\n"
      "#SBATCH --job-name={0}\n"
      "#SBATCH --array=1-{1}\n"
      "#SBATCH --ntasks={2}\n"
      "#SBATCH --output=\"{3}/logs/%a.log\"\n"
      "#SBATCH --open-mode=append\n"
      "#SBATCH --requeue\n"
      "#SBATCH --signal=B:USR1@120\n"
      "{6}"
      "set -uo pipefail\n"
      "{4}"
      "task=${{SLURM_ARRAY_TASK_ID:?start this script with sbatch}}\n"
      "cell=$(awk -v task=\"$task\" '$1 == task {{ print $2 }}' \"$folder/tasks.tsv\")\n"
      "[ -n \"$cell\" ] || fail \"$folder/tasks.tsv has no task $task\"\n"
      "mapfile -t labels <\"$folder/tasks/$task.labels\"\n"
      "# mpirun hands USR1 to the ranks, which save and end.\n"
      "exec {5}\n",
      grid.name, tasks, grid.ranks, folder.string(), preamble(grid, folder), training_command(grid.ranks),
      sbatch_options(grid));
}

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
