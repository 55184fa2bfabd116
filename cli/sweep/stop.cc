#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <vector>

#include "base/check_name.h"
#include "base/grouped.h"
#include "base/json_get.h"
#include "base/records/records.h"
#include "cli/runs/run_commands.h"
#include "cli/sweep/sweep_commands.h"
#include "cli/sweep/sweep_runs.h"
#include "client/problem.h"

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

}  // namespace babelring
