#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "server/http/gate.h"
#include "server/translate/pool.h"

namespace babelring {

/// The server's command line.
struct ServerOptions {
  std::string address = "127.0.0.1";
  std::uint16_t port = 8080;  // 0: any free one
  std::filesystem::path data = "runs/server";
  std::vector<std::filesystem::path> checkpoint_roots;  // besides the data folder
  std::filesystem::path page_folder;                    // empty: the embedded page
  std::set<std::string> hosts;                          // lower case
  std::set<std::string> origins;                        // of other sites' pages that may use the API, lower case
  bool tokens = true;                                   // nothing is read or written without one
  bool new_admin_token = false;
  bool open_metrics = false;  // /metrics needs no token from this machine
  bool behind_proxy = false;
  std::filesystem::path tls_certificate, tls_key;  // empty: no TLS
  std::size_t address_connections = 256;           // of one client beyond this machine
  bool strict_transport = true;                    // over TLS, browsers are told to use nothing else
  double request_rate = 1000;                      // each second, by a token or an address; 0: no limit
  std::filesystem::path nmt;                       // program that translates; empty: `nmt` beside this one
  std::size_t translators = translate::PoolOptions().most_helpers;
  std::int64_t translator_memory_mb = translate::PoolOptions().memory_mb;
  std::filesystem::path profiles_file;  // ways to start runs; empty: the built-in ones
  bool checkpoint_runs_on_exit = false;
  std::filesystem::path restore;  // put this backup in the place of the database, then end; empty: serve
  bool check = false;             // say whether a start would succeed, then end
  bool new_database = false;      // begin with an empty database where the folder's is gone
  std::string log_level = "info";
  bool json_log = false;
  int audit_days = 90;                       // entries of who may operate or administer are kept
  http::AccessLog::Options access_log;       // its file: empty for DATA/access.log
  std::filesystem::path options_file;        // empty: the command line alone
  std::map<std::string, std::string> given;  // what the user chose: the option's name and its values

  /// Throws UsageFailure for a wrong command line or options file, or when the address is open to others without the
  /// user saying that this is meant. Empty after --help or --version was answered.
  static std::optional<ServerOptions> parse(int argc, char** argv);

  /// The data folder and the roots of checkpoints, without links. Throws UsageFailure naming a root that is not there.
  std::vector<std::filesystem::path> canonical_roots(const std::filesystem::path& data_folder) const;

  /// What the user chose that lets others in or lets them read: a line each.
  std::vector<std::string> dangers() const;

  /// How to translate; without a program where there is none.
  translate::PoolOptions translator_options() const;

  /// Who may come in.
  http::GateOptions gate(http::Authenticator& authenticator, http::AuditTrail& audit) const;
};

}  // namespace babelring
