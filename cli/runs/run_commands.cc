#include "cli/runs/run_commands.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <boost/json/object.hpp>
#include <functional>

#include "base/log.h"
#include "base/names.h"
#include "base/records/records.h"
#include "cli/runs/table.h"
#include "client/api_client.h"

namespace babelring {
namespace {

constexpr std::size_t max_asked = 1000;
constexpr std::size_t max_listed = 4;

[[noreturn]] void fail_ambiguous(const std::string& named, const std::vector<const json::object*>& fitting) {
  std::string list;
  for (std::size_t i = 0; i < std::min(max_listed, fitting.size()); ++i) {
    const json::object& run = *fitting[i];
    list += fmt::format("{}{} ({}, {}, {})", i == 0 ? "" : ", ", text_of(run, "id"), text_of(run, "name"),
                        text_of(run, "state"), text_of(run, "created_at"));
  }
  fail("'{}' matches {} runs: {}{}; give an id", printable(named), fitting.size(), list,
       fitting.size() > max_listed ? ", …" : "");
}

}  // namespace

json::object find_run(ApiClient& api, const std::string& named) {
  if (named.empty()) throw UsageFailure("expected a run's id or name, found an empty string");
  if (valid_id(named, 'r')) return api.get("/runs/" + named);
  const std::vector<json::object> runs = api.get_items("/runs?q=" + percent_encoded(named), max_asked);
  const std::function<bool(const json::object&)> rules[] = {
      [&](const json::object& run) { return named.starts_with("r_") && text_of(run, "id").starts_with(named); },
      [&](const json::object& run) { return text_of(run, "name") == named; },
      [&](const json::object& run) { return text_of(run, "name").starts_with(named); },
  };
  for (const auto& fits : rules) {
    std::vector<const json::object*> fitting;
    for (const json::object& run : runs) {
      if (fits(run)) fitting.push_back(&run);
    }
    if (fitting.size() > 1) fail_ambiguous(named, fitting);
    if (fitting.size() == 1) return api.get("/runs/" + text_of(*fitting[0], "id"));
  }
  fail("{} has no run with an id or name that starts with '{}' (`nmt run list` shows all runs)", api.access().address,
       printable(named));
}

void ServerChoice::declare(CLI::App& command) {
  declare_access(command);
  command.add_flag("--json", as_json, "print JSON instead of text");
}

void ServerChoice::declare_access(CLI::App& command) {
  command.add_option("--server", server, "address of the server; default: BABELRING_SERVER or http://127.0.0.1:8080");
  command.add_option("--token-file", token_file,
                     "file with the access token; default: BABELRING_TOKEN or ~/.config/babelring/token");
  command.add_option("--ca-file", ca_file,
                     "trusted certificates for https (PEM); default: BABELRING_CA_FILE or the system's");
}

void RunChoice::declare(CLI::App& command) {
  command.add_option("run", run, "id, name or a unique prefix of either")->required();
  ServerChoice::declare(command);
}

void add_run(CLI::App& app, ConfigReader read_config) {
  CLI::App* run = app.add_subcommand(
      "run", "Starts, watches, explains, compares, changes and controls runs on a server, and downloads checkpoints");
  run->require_subcommand(1);
  add_run_submit(*run, std::move(read_config));
  add_run_list(*run);
  add_run_show(*run);
  add_run_why(*run);
  add_run_compare(*run);
  add_run_watch(*run);
  add_run_stop(*run);
  add_run_resume(*run);
  add_run_edit(*run);
  add_run_archive(*run);
  add_run_delete(*run);
  add_run_logs(*run);
  add_run_checkpoints(*run);
  add_run_pin(*run);
  add_run_download(*run);
  add_run_trace(*run);
  add_run_sync(*run);
  add_run_import(*run);
}

}  // namespace babelring
