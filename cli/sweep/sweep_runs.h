#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "client/api_client.h"

namespace CLI {
class App;
}

namespace babelring {

/// The grid that a command reads.
struct SweepGridChoice {
  std::string file;
  bool strict = false;

  /// Adds the argument `grid` and --strict. They are bound to this object, which must outlive `command`.
  void declare(CLI::App& command);
};

/// Adds `nmt sweep` with the subcommands expand, submit, show and stop.
void add_sweep(CLI::App& app);

void add_sweep_expand(CLI::App& sweep);
void add_sweep_submit(CLI::App& sweep);
void add_sweep_show(CLI::App& sweep);
void add_sweep_stop(CLI::App& sweep);

/// Labels of a sweep's runs beside their coordinates, whose names are configuration keys.
inline constexpr const char* sweep_label = "sweep";  // the sweep's name
inline constexpr const char* cell_label = "cell";    // SweepCell::id

/// The newest run of each cell of a sweep on the server, by SweepCell::id.
std::map<std::string, json::object> sweep_runs(ApiClient& api, const std::string& sweep);

/// The same. Throws UsageFailure if there is none.
std::map<std::string, json::object> require_sweep_runs(ApiClient& api, const std::string& sweep);

/// "12 succeeded, 2 running", in the order of a run's life.
std::string count_states(const std::map<std::string, json::object>& runs);

/// The number of runs in a state.
std::size_t count_state(const std::map<std::string, json::object>& runs, std::string_view state);

/// True for a run that has ended.
bool has_ended(const json::object& run);

/// The file in the folder of `nmt sweep expand` that lists the tasks: number, cell and settings, separated by tabs.
inline constexpr const char* sweep_task_table = "tasks.tsv";

/// True if `nmt sweep expand` has written into the folder.
bool is_sweep_folder(const std::filesystem::path& folder);

/// The runs of a sweep in the folder of `nmt sweep expand`, by SweepCell::id, from the spools of their rank 0: what
/// sweep_results() reads of items of GET /runs, with the same meaning. A cell without a spool has the state "queued"; a
/// run that has not ended is "running" while a worker holds its folder, otherwise "lost". Throws Failure, naming file
/// and line, if the table or a record is damaged.
std::map<std::string, json::object> folder_runs(const std::filesystem::path& folder);

}  // namespace babelring
