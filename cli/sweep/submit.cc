#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <optional>
#include <vector>

#include "base/failure.h"
#include "base/files.h"
#include "base/json.h"
#include "base/names.h"
#include "base/records/records.h"
#include "base/text.h"
#include "cli/runs/run_commands.h"
#include "cli/sweep/grid.h"
#include "cli/sweep/sweep_runs.h"
#include "client/api_client.h"

namespace babelring {
namespace {

struct SweepStopArguments {
  std::string sweep;
  bool now = false;
  ServerChoice server;
};

/// The ids of runs to stop. Those that wait come first, so that none of them starts in the place of a stopped one.
std::vector<std::string> unfinished(const std::map<std::string, json::object>& runs) {
  std::vector<std::string> waiting, started;
  for (const auto& [cell, run] : runs) {
    if (has_ended(run)) continue;
    (get_text(run, "state") == "queued" ? waiting : started).push_back(get_text(run, "id"));
  }
  waiting.insert(waiting.end(), started.begin(), started.end());
  return waiting;
}

void stop_sweep(const SweepStopArguments& arguments) {
  ApiClient api(arguments.server.access());
  std::int64_t stopped = 0;
  for (const std::string& run : unfinished(require_sweep_runs(api, arguments.sweep))) {
    try {
      const json::object body = {{"mode", arguments.now ? "now" : "checkpoint"}};
      api.send("POST", "/runs/" + run + "/stop", body, make_id('k'));
      ++stopped;
    } catch (const ServerRefusal& refusal) {
      if (refusal.problem().status != 409) throw;  // 409: it has ended meanwhile
    }
  }
  if (arguments.server.as_json) {
    std::cout << to_text(json::object{{"sweep", arguments.sweep}, {"stopping", stopped}}) << '\n';
  } else {
    fmt::print("{}: stopping {}\n", arguments.sweep, counted(static_cast<double>(stopped), "run"));
  }
}

}  // namespace

void add_sweep_stop(CLI::App& sweep) {
  CLI::App* command = sweep.add_subcommand("stop", "Stops the runs of a sweep that have not ended, after a checkpoint");
  const auto arguments = std::make_shared<SweepStopArguments>();
  command->add_option("sweep", arguments->sweep, "name of the sweep")->required();
  command->add_flag("--now", arguments->now, "stop at once, without a checkpoint");
  arguments->server.declare(*command);
  command->callback([arguments] { stop_sweep(*arguments); });
}

namespace {

constexpr const char* default_profile = "mpirun-local";  // of the server

struct SweepSubmitArguments {
  SweepGridChoice grid;
  std::string profile = default_profile;
  std::optional<std::int64_t> max_restarts;
  bool stopped = false;
  ServerChoice server;
};

/// Outcomes of the cells.
struct SweepSubmission {
  std::size_t submitted = 0, refused_by_queue = 0, left_out = 0;
  std::map<std::string, json::object> runs;  // afterwards, by cell
  std::int64_t max_running = 0;              // of the profile
};

SubmitRequest request_of(const SweepCell& cell, const SweepGrid& grid, const SweepSubmitArguments& arguments) {
  SubmitRequest request{.config = cell.config,
                        .name = cell.name,
                        .profile = arguments.profile,
                        .world_size = grid.ranks,
                        .max_restarts = arguments.max_restarts,
                        .resume_from = {},
                        .labels = cell.labels(grid.name)};
  return request;
}

/// True if the cell has no run, or only one that failed or, with --stopped, was stopped.
bool is_due(const SweepCell& cell, const std::map<std::string, json::object>& runs, bool stopped) {
  const auto found = runs.find(cell.id);
  if (found == runs.end()) return true;
  const std::string state = get_text(found->second, "state");
  return state == "failed" || (stopped && state == "stopped");
}

std::int64_t max_running_of(ApiClient& api, const std::string& profile) {
  for (const json::object& item : api.get_items("/profiles", 1000)) {
    if (get_text(item, "name") == profile) return get_integer(item, "max_running");
  }
  throw UsageFailure(fmt::format("--profile: the server has no profile '{}'", profile));
}

SweepSubmission submit_cells(ApiClient& api, const SweepGrid& grid, const std::vector<SweepCell>& cells,
                             const SweepSubmitArguments& arguments) {
  SweepSubmission done{.runs = {}, .max_running = max_running_of(api, arguments.profile)};
  const auto before = sweep_runs(api, grid.name);
  for (const SweepCell& cell : cells) {
    if (!cell.problem.empty()) {
      ++done.left_out;
    } else if (!is_due(cell, before, arguments.stopped)) {
      continue;
    } else if (done.refused_by_queue > 0) {
      ++done.refused_by_queue;
    } else {
      try {
        submit_run(api, request_of(cell, grid, arguments));
        ++done.submitted;
      } catch (const ServerRefusal& refusal) {
        if (refusal.problem().code != "queue_full") {
          fail("cell {} ({}): {}; {} submitted before it", cell.number, cell.text(), refusal.what(),
               counted(static_cast<double>(done.submitted), "cell"));
        }
        ++done.refused_by_queue;
      }
    }
  }
  done.runs = sweep_runs(api, grid.name);
  return done;
}

void print_submission(const SweepGrid& grid, const SweepSubmission& done, const SweepSubmitArguments& arguments) {
  fmt::print("{}: {} of {} submitted", grid.name, done.submitted, counted(static_cast<double>(grid.size()), "cell"));
  if (done.left_out > 0) fmt::print(", {} left out", done.left_out);
  fmt::print("; now {}\n", count_states(done.runs));
  fmt::print("{}/#/sweep/{}\n", arguments.server.access().address, grid.name);
  const std::size_t waiting = count_state(done.runs, "queued");
  if (waiting > 0) {
    fmt::print("{} waiting: profile {} runs at most {} at a time\n", counted(static_cast<double>(waiting), "run"),
               arguments.profile, done.max_running);
  }
  if (done.refused_by_queue > 0) {
    fmt::print("{} not submitted: the server's queue is full; submit again when runs have ended\n",
               counted(static_cast<double>(done.refused_by_queue), "cell"));
  }
  const std::size_t stopped = count_state(done.runs, "stopped");
  if (stopped > 0) {
    fmt::print("{} stopped: --stopped starts the cells again, `nmt run resume` continues a run\n",
               counted(static_cast<double>(stopped), "run"));
  }
}

void submit_sweep(const SweepSubmitArguments& arguments) {
  const SweepGrid grid = read_sweep_grid(read_file(arguments.grid.file), arguments.grid.file);
  const std::vector<SweepCell> cells = expand_sweep(grid);
  report_left_out(cells, arguments.grid.strict);
  ApiClient api(arguments.server.access());
  const SweepSubmission done = submit_cells(api, grid, cells, arguments);
  if (!arguments.server.as_json) return print_submission(grid, done, arguments);
  std::cout << to_text(json::object{{"sweep", grid.name},
                                    {"cells", grid.size()},
                                    {"submitted", done.submitted},
                                    {"left_out", done.left_out},
                                    {"refused_by_queue", done.refused_by_queue},
                                    {"queued", count_state(done.runs, "queued")},
                                    {"max_running", done.max_running}})
            << '\n';
}

}  // namespace

void add_sweep_submit(CLI::App& sweep) {
  CLI::App* command = sweep.add_subcommand(
      "submit", "Starts the cells of a grid through a server: those that have no run or whose run failed");
  const auto arguments = std::make_shared<SweepSubmitArguments>();
  arguments->grid.declare(*command);
  command->add_option("--profile", arguments->profile, "launch profile defined on the server")->capture_default_str();
  command->add_option("--max-restarts", arguments->max_restarts, "max restarts of each run after faults")
      ->check(CLI::Range(0, 1000));
  command->add_flag("--stopped", arguments->stopped, "also start cells whose run was stopped, from the beginning");
  arguments->server.declare(*command);
  command->callback([arguments] { submit_sweep(*arguments); });
}

}  // namespace babelring
