#include "cli/runs/run_commands.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <boost/json/object.hpp>

#include "base/failure.h"
#include "base/log.h"
#include "base/names.h"
#include "base/records/records.h"
#include "cli/runs/table.h"
#include "cli/runs/watch.h"

namespace babelring {
namespace {

/// Prints a run's state after a command.
void report(const json::object& run, bool as_json, const char* what) {
  const Screen screen = Screen::of_stdout();
  if (as_json) {
    screen.out << to_text(run) << '\n';
  } else {
    const std::string state = text_of(run, "state");
    screen.out << fmt::format("{} {} ({}): {}\n", what, text_of(run, "id"), text_of(run, "name"),
                              screen.coloured(state, colour_of_state(state)));
  }
  screen.out.flush();
}

struct SubmitArguments {
  ServerChoice server;
  SubmitRequest request;
  std::string config_file;
  std::vector<std::string> overrides;
  bool watch = false, dry = false;
};

void submit(const SubmitArguments& arguments, const ConfigReader& read_config) {
  SubmitRequest request = arguments.request;
  request.config = read_config(arguments.config_file, arguments.overrides);
  ApiClient api(arguments.server.access());
  if (arguments.dry) {
    const json::object checked = api.send("POST", "/runs:validate", submit_body(request));
    Screen::of_stdout().out << to_text(checked) << '\n';
    return;
  }
  const json::object run = submit_run(api, request);
  report(run, arguments.server.as_json, "submitted");
  if (arguments.watch) {
    watch_run(arguments.server.access(), text_of(run, "id"), arguments.server.as_json, Screen::of_stdout());
  }
}

struct StopArguments {
  RunChoice chosen;
  bool now = false, wait = false;
  std::optional<std::int64_t> grace_s;
};

void stop(const StopArguments& arguments) {
  ApiClient api(arguments.chosen.access());
  const std::string id = text_of(find_run(api, arguments.chosen.run), "id");
  json::object body = {{"mode", arguments.now ? "now" : "checkpoint"}};
  if (arguments.grace_s) body["grace_s"] = *arguments.grace_s;
  report(api.send("POST", "/runs/" + id + "/stop", body, make_id('k')), arguments.chosen.as_json, "stopping");
  if (arguments.wait) watch_run(arguments.chosen.access(), id, arguments.chosen.as_json, Screen::of_stdout());
}

struct ResumeArguments {
  RunChoice chosen;
  std::string checkpoint;
  std::optional<std::int64_t> world_size;
  bool watch = false;
};

void resume(const ResumeArguments& arguments) {
  ApiClient api(arguments.chosen.access());
  const std::string id = text_of(find_run(api, arguments.chosen.run), "id");
  json::object body;
  if (!arguments.checkpoint.empty()) body["checkpoint"] = arguments.checkpoint;
  if (arguments.world_size) body["world_size"] = *arguments.world_size;
  report(api.send("POST", "/runs/" + id + "/resume", body, make_id('k')), arguments.chosen.as_json, "resuming");
  if (arguments.watch) watch_run(arguments.chosen.access(), id, arguments.chosen.as_json, Screen::of_stdout());
}

}  // namespace

json::object submit_body(const SubmitRequest& request) {
  json::object body = {{"config", request.config}};
  if (!request.name.empty()) body["name"] = request.name;
  if (!request.profile.empty()) body["profile"] = request.profile;
  if (request.world_size) body["world_size"] = *request.world_size;
  if (request.max_restarts) body["max_restarts"] = *request.max_restarts;
  if (!request.resume_from.empty()) body["resume_from"] = request.resume_from;
  json::object labels;
  for (const std::string& label : request.labels) {
    const std::size_t equals = label.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw UsageFailure(fmt::format("--label: expected key=value, found '{}'", printable(label)));
    }
    labels[label.substr(0, equals)] = label.substr(equals + 1);
  }
  if (!labels.empty()) body["labels"] = std::move(labels);
  return body;
}

json::object submit_run(ApiClient& api, const SubmitRequest& request) {
  return api.send("POST", "/runs", submit_body(request), make_id('k'));
}

void add_run_submit(CLI::App& run, ConfigReader read_config) {
  CLI::App* command = run.add_subcommand("submit", "Starts a run on the server's machines");
  const auto arguments = std::make_shared<SubmitArguments>();
  SubmitRequest& request = arguments->request;
  command->add_option("--config", arguments->config_file, "configuration file (YAML)")->required();
  command->add_option("overrides", arguments->overrides, "key=value, overrides the file: training.max_minutes=10");
  command->add_option("--name", request.name, "display name of the run; default: the configuration's");
  command->add_option("--profile", request.profile, "launch profile defined on the server");
  command->add_option("--world-size,--ranks", request.world_size, "number of ranks")->check(CLI::Range(1, 4096));
  command->add_option("--max-restarts", request.max_restarts, "max restarts after faults")->check(CLI::Range(0, 1000));
  command->add_option("--resume-from", request.resume_from, "id of the checkpoint to start from");
  command->add_option("--label", request.labels, "key=value; may be repeated")->allow_extra_args(false);
  command->add_flag("--dry-run", arguments->dry, "only print what the server would do");
  command->add_flag("--watch", arguments->watch, "follow the run until it ends");
  arguments->server.declare(*command);
  command->callback([arguments, read_config = std::move(read_config)] { submit(*arguments, read_config); });
}

void add_run_stop(CLI::App& run) {
  CLI::App* command = run.add_subcommand("stop", "Stops a run after saving a checkpoint");
  const auto arguments = std::make_shared<StopArguments>();
  command->add_flag("--now", arguments->now, "stop at once, without a checkpoint");
  command->add_option("--grace-s", arguments->grace_s, "seconds until the run is killed")->check(CLI::Range(0, 600));
  command->add_flag("--wait", arguments->wait, "wait until the run has ended");
  arguments->chosen.declare(*command);
  command->callback([arguments] { stop(*arguments); });
}

void add_run_resume(CLI::App& run) {
  CLI::App* command = run.add_subcommand("resume", "Resumes an ended run from a checkpoint");
  const auto arguments = std::make_shared<ResumeArguments>();
  command->add_option("--checkpoint", arguments->checkpoint, "id of the checkpoint; default: the newest");
  command->add_option("--world-size,--ranks", arguments->world_size, "number of ranks; default: as before")
      ->check(CLI::Range(1, 4096));
  command->add_flag("--watch", arguments->watch, "follow the run until it ends");
  arguments->chosen.declare(*command);
  command->callback([arguments] { resume(*arguments); });
}

}  // namespace babelring
