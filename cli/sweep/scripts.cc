#include "cli/sweep/scripts.h"

#include <fmt/format.h>

#include "base/shell.h"

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

}  // namespace

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

}  // namespace babelring
