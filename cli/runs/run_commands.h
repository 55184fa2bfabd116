#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/api_client.h"

namespace CLI {
class App;
}

namespace babelring {

/// Finds the run that a user named. Tries in this order: id, prefix of an id (r_…), name, prefix of a name. Throws
/// Failure if no run matches, or if several match, which it lists.
json::object find_run(ApiClient& api, const std::string& named);

/// A change of a run; absent members stay.
struct RunEdit {
  std::optional<std::string> name, note;
  std::vector<std::string> labels;          // key=value: set
  std::vector<std::string> removed_labels;  // keys
  std::optional<std::int64_t> max_restarts;
};

/// The merge patch (RFC 7396) of a change. Throws UsageFailure on a label that is none, and if nothing changes.
json::object edit_patch(const RunEdit& edit);

/// Sends a merge patch for the run as it is now, and returns the changed run. Throws ServerRefusal 412 if another
/// client changes it at the same moment.
json::object patch_run(ApiClient& api, const std::string& run, const json::object& patch);

/// The reasons that the server knows for a run being as it is: `run` (with its health), `verdict` (null if there is
/// none), its open `alerts`, and the newest `transitions`, `attempts` and `log` lines, oldest first.
json::object explain_run(ApiClient& api, const json::object& run);

/// Options of all commands that access a server.
struct ServerChoice {
  std::string server;
  std::filesystem::path token_file, ca_file;
  bool as_json = false;

  /// Adds --server, --token-file, --ca-file and --json. They are bound to this object, which must outlive `command`.
  void declare(CLI::App& command);
  /// The same without --json.
  void declare_access(CLI::App& command);
  ServerAccess access() const { return find_server(server, token_file, ca_file); }
};

/// Options of all commands on one run.
struct RunChoice : ServerChoice {
  std::string run;

  /// Adds the run argument and the server options.
  void declare(CLI::App& command);
};

/// Reads a configuration file, applies overrides (key=value) and returns the result as YAML. Throws UsageFailure with
/// file, line and column.
using ConfigReader = std::function<std::string(const std::string& file, const std::vector<std::string>& overrides)>;

/// Adds `nmt run` with the subcommands submit, list, show, why, compare, watch, stop, resume, edit, archive, delete,
/// logs, checkpoints, pin, download, trace and sync.
void add_run(CLI::App& app, ConfigReader read_config);

/// Adds `nmt webhook` with the subcommands list, add, edit, remove and test.
void add_webhook(CLI::App& app);

// One function per subcommand.
void add_run_submit(CLI::App& run, ConfigReader read_config);
void add_run_list(CLI::App& run);
void add_run_show(CLI::App& run);
void add_run_why(CLI::App& run);
void add_run_compare(CLI::App& run);
void add_run_watch(CLI::App& run);
void add_run_stop(CLI::App& run);
void add_run_resume(CLI::App& run);
void add_run_edit(CLI::App& run);
void add_run_archive(CLI::App& run);
void add_run_delete(CLI::App& run);
void add_run_logs(CLI::App& run);
void add_run_checkpoints(CLI::App& run);
void add_run_pin(CLI::App& run);
void add_run_download(CLI::App& run);
void add_run_trace(CLI::App& run);
void add_run_sync(CLI::App& run);

}  // namespace babelring
