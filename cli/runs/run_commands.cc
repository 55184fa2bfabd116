#include "cli/runs/run_commands.h"

#include <CLI/CLI.hpp>

namespace babelring {

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
  CLI::App* run =
      app.add_subcommand("run", "Starts, watches, traces and controls runs on a server, and downloads checkpoints");
  run->require_subcommand(1);
  add_run_submit(*run, std::move(read_config));
  add_run_list(*run);
  add_run_show(*run);
  add_run_watch(*run);
  add_run_stop(*run);
  add_run_resume(*run);
  add_run_logs(*run);
  add_run_checkpoints(*run);
  add_run_download(*run);
  add_run_trace(*run);
  add_run_sync(*run);
}

}  // namespace babelring
