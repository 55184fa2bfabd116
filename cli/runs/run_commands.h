#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/records/records.h"
#include "cli/runs/screen.h"
#include "client/api_client.h"
#include "client/server_access.h"

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
/// logs, checkpoints, pin, download, trace, sync and import.
void add_run(CLI::App& app, ConfigReader read_config);

/// Adds `nmt webhook` with the subcommands list, add, edit, remove and test.
void add_webhook(CLI::App& app);
/// Adds `nmt alert` with the subcommands list and ack.
void add_alert(CLI::App& app);
/// Adds `nmt rule` with the subcommands list, add, edit and remove.
void add_rule(CLI::App& app);

struct SubmitRequest {
  std::string config;  // YAML
  std::string name;    // empty: the name in the configuration
  std::string profile;
  std::optional<std::int64_t> world_size, max_restarts;
  std::string resume_from;          // a checkpoint's id
  std::vector<std::string> labels;  // key=value
};

/// The body of POST /runs. Throws UsageFailure on a label without '='.
json::object submit_body(const SubmitRequest& request);

/// Starts the run. Retries with an idempotency key, so that it starts only once. Returns the run.
json::object submit_run(ApiClient& api, const SubmitRequest& request);

/// Prints a run as lines "name  value", at the end the newest of `evals`, the run's evaluations, on each set other than
/// that of its last validation. The losses by corpus are of `metrics`, the answer with its metric keys. Omits absent
/// members.
void print_run(const json::object& run, const std::vector<json::object>& evals, const json::object& metrics,
               const Screen& screen);

/// Prints a run's health: the headline, the advice, and each part other than the headline.
void print_health(const json::object& health, const Screen& screen);

struct ListRequest {
  std::string state, text;  // empty: any
  bool archived = false;    // these instead of the others
  std::size_t most = 50;
};

/// `nmt run list`: prints runs as a table, or the server's items as one JSON array.
void list_runs(ApiClient& api, const ListRequest& request, bool as_json, const Screen& screen);

/// `nmt run checkpoints`: prints the checkpoints of a run in the same way, newest first.
void list_checkpoints(ApiClient& api, const std::string& run, bool as_json, const Screen& screen);

struct LogRequest {
  std::string run;  // id
  std::optional<std::int64_t> rank;
  std::string level, text;  // empty: any
  std::int64_t tail = 200;  // number of newest lines
  bool follow = false;      // then print new lines until the run ends or Ctrl-C; survives restarts of the server
  std::chrono::milliseconds poll_interval{1000};  // without an event stream
};

/// `nmt run logs`: prints log lines as text, or the server's items as JSON lines.
void print_logs(const ServerAccess& access, const LogRequest& request, bool as_json, const Screen& screen);

struct SyncOptions {
  ServerAccess server;
  bool all = false;                            // also records that the server has confirmed
  std::chrono::milliseconds first_retry{500};  // then twice as long each time
  int retries = 4;                             // of a batch that the server does not take
};

/// The records of one run's folder that were sent.
struct SyncedRun {
  std::filesystem::path folder;
  std::string run;                                 // its id; empty: its spools have no record
  std::int64_t sent = 0;                           // that the server did not have
  std::int64_t first_update = 0, last_update = 0;  // of the steps in the batches with these; 0: none
  std::int64_t refused = 0;
  std::string refusal;  // reason for the first refused one
};

/// Sends what a server lacks of the records in the spools of ended runs. May be repeated. Throws UsageFailure if a
/// folder has no spool or if a process still writes to one, before anything is sent; Failure if the server cannot be
/// reached, does not take the records or refuses the token. What was sent before that is marked.
std::vector<SyncedRun> sync_runs(const std::vector<std::filesystem::path>& folders, const SyncOptions& options);

/// Sends the records of one rank of a run, of which the server may have some already. Throws Failure if the server
/// cannot be reached, does not take them or refuses the token.
SyncedRun send_records(std::span<const Record> records, const SyncOptions& options);

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
void add_run_import(CLI::App& run);

}  // namespace babelring
