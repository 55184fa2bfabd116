#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "client/api_client.h"

namespace CLI {
class App;
}

namespace babelring {

/// What every command that asks a server takes.
struct ServerChoice {
  std::string server;
  std::filesystem::path token_file, ca_file;
  bool as_json = false;

  /// Adds --server, --token-file, --ca-file and --json, bound to this object.
  void declare(CLI::App& command);
  /// The same without --json.
  void declare_access(CLI::App& command);
  ServerAccess access() const { return find_server(server, token_file, ca_file); }
};

/// What every command about one run takes.
struct RunChoice : ServerChoice {
  std::string run;

  /// Adds the run, and what every command has.
  void declare(CLI::App& command);
};

/// Reads a configuration file with key=value over it, and gives it as YAML text. Throws UsageFailure with file, line
/// and column.
using ConfigReader = std::function<std::string(const std::string& file, const std::vector<std::string>& overrides)>;

/// `nmt run …`: submit, list, show, watch, stop, resume, logs, checkpoints and download.
void add_run(CLI::App& app, ConfigReader read_config);

// One function a subcommand, each in the file of that name.
void add_run_submit(CLI::App& run, ConfigReader read_config);
void add_run_list(CLI::App& run);
void add_run_show(CLI::App& run);
void add_run_watch(CLI::App& run);
void add_run_stop(CLI::App& run);
void add_run_resume(CLI::App& run);
void add_run_logs(CLI::App& run);
void add_run_checkpoints(CLI::App& run);
void add_run_download(CLI::App& run);

}  // namespace babelring
