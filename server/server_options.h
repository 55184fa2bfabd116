#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "server/artifacts/exports.h"
#include "server/http/admission.h"
#include "server/translate/pool.h"

namespace babelring {

/// The server's command line.
struct ServerOptions {
  std::string address = "127.0.0.1";
  std::uint16_t port = 8080;  // 0: any free port
  std::filesystem::path data = "runs/server";
  std::vector<std::filesystem::path> checkpoint_roots;  // in addition to the data folder
  std::filesystem::path page_folder;                    // dashboard files; empty: the embedded dashboard
  std::set<std::string> hosts;                          // allowed Host names, lower case
  std::set<std::string> origins;                        // allowed cross-site origins, lower case
  bool tokens = true;                                   // requests need a token
  bool new_admin_token = false;
  bool open_metrics = false;  // /metrics needs no token from loopback
  bool behind_proxy = false;
  std::filesystem::path tls_certificate, tls_key;  // empty: no TLS
  std::size_t address_connections = 256;           // max connections per remote address; 0: no limit
  bool strict_transport = true;                    // send HSTS over TLS
  double request_rate = 1000;                      // requests per second and token or address; 0: no limit
  std::filesystem::path nmt;                       // translates and exports; empty: `nmt` in the server's folder
  std::size_t translators = translate::PoolOptions().max_helpers;
  std::string translator_precision = translate::PoolOptions().precision;
  std::size_t translator_queue = translate::PoolOptions().queue.requests;
  std::int64_t translator_memory_mb = translate::PoolOptions().memory_mb;
  std::filesystem::path profiles_file;  // launch profiles; empty: the built-in ones
  bool checkpoint_runs_on_exit = false;
  std::int64_t exit_grace_s = 60;  // longest wait, at the end, for runs that save
  std::filesystem::path restore;   // restore this backup and exit; empty: serve
  std::string moved;               // /OLD=/NEW: rename stored paths and exit; empty: serve
  bool check = false;              // check the configuration and exit
  bool new_database = false;       // create an empty database if the folder's database is missing
  std::string log_level = "info";
  bool json_log = false;
  int audit_days = 90;                       // retention of audit entries by operators, administrators and the server
  http::AccessLog::Options access_log;       // file empty: DATA/access.log
  std::filesystem::path options_file;        // empty: no options file
  std::map<std::string, std::string> given;  // options set by the user: name without dashes → values

  /// Parses the command line and the options file. Returns nothing after --help or --version. Throws UsageFailure if
  /// an option is invalid, or if a non-loopback address would be insecure and the user has not accepted that.
  static std::optional<ServerOptions> parse(int argc, char** argv);

  /// `data_folder` followed by the checkpoint roots as canonical paths. Throws UsageFailure if a root does not exist.
  std::vector<std::filesystem::path> canonical_roots(const std::filesystem::path& data_folder) const;

  /// Security warnings about the chosen options, one line each.
  std::vector<std::string> security_warnings() const;

  /// Options of the translation pool. Its program is empty if none was found.
  translate::PoolOptions translator_options() const;
  /// Limits of exports: the program and the memory are those of translators.
  artifacts::ExportLimits export_limits() const;

  http::AdmissionOptions admission_options(http::Authenticator& authenticator, http::AuditTrail& audit) const;
};

}  // namespace babelring
