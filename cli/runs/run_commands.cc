#include "cli/runs/run_commands.h"

#include <CLI/CLI.hpp>

namespace babelring {

void ServerChoice::declare(CLI::App& command) {
  declare_access(command);
  command.add_flag("--json", as_json, "JSON for scripts instead of text for people");
}

void ServerChoice::declare_access(CLI::App& command) {
  command.add_option("--server", server, "address of the server; else BABELRING_SERVER, else http://127.0.0.1:8080");
  command.add_option("--token-file", token_file,
                     "file with the access token; else BABELRING_TOKEN, else ~/.config/babelring/token");
  command.add_option("--ca-file", ca_file, "certificates that https trusts; else BABELRING_CA_FILE, else the system's");
}

void RunChoice::declare(CLI::App& command) {
  command.add_option("run", run, "id or name, or the beginning of one")->required();
  ServerChoice::declare(command);
}

void add_run(CLI::App& app, ConfigReader read_config) {
  CLI::App* run = app.add_subcommand("run", "Starts, watches and steers runs on a server, and fetches what they made");
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
}

}  // namespace babelring
