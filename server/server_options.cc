#include "server/server_options.h"

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <charconv>

#include "base/failure.h"
#include "base/help.h"
#include "base/usage.h"
#include "base/version.h"
#include "server/options_file.h"

namespace babelring {
namespace {

void parse_listen(const std::string& text, ServerOptions& options) {
  const auto colon = text.rfind(':');
  const char* end = text.data() + text.size();
  bool formed = colon != std::string::npos && colon > 0 && colon + 1 < text.size();
  if (formed) {
    const auto [stop, error] = std::from_chars(text.data() + colon + 1, end, options.port);
    formed = error == std::errc() && stop == end;  // a port beyond 65535 is all digits too
  }
  if (!formed) throw UsageFailure(fmt::format("--listen: expected ADDRESS:PORT, found '{}'", text));
  options.address = text.substr(0, colon);
  if (options.address.front() == '[' && options.address.back() == ']') {
    options.address = options.address.substr(1, options.address.size() - 2);
  }
  if (options.address == "localhost") options.address = "127.0.0.1";
}

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

/// scheme://host[:port], in lower case, without a path: as browsers send it.
std::string checked_origin(const std::string& text) {
  std::string origin = lower(text);
  const std::size_t start = origin.starts_with("https://") ? 8 : origin.starts_with("http://") ? 7 : 0;
  if (start == 0 || start == origin.size() || origin.find_first_of("/*?# ", start) != std::string::npos) {
    throw UsageFailure(fmt::format("--allow-origin: expected https://host or https://host:port, found '{}'", text));
  }
  return origin;
}

/// Beyond this machine nobody shall read tokens on their way, or do without one, unless that is meant.
void check_exposure(const ServerOptions& options, const std::string& listen, bool insecure) {
  if (options.tls_certificate.empty() != options.tls_key.empty()) {
    throw UsageFailure("--tls-cert and --tls-key: expected both or none");
  }
  if (is_loopback(options.address) || insecure || options.behind_proxy) return;
  if (options.tls_certificate.empty()) {
    throw UsageFailure(
        fmt::format("--listen {}: others could read tokens on their way; give --tls-cert and --tls-key, put a reverse "
                    "proxy in front and say --behind-proxy, or say --insecure",
                    listen));
  }
  if (!options.tokens) {
    throw UsageFailure(
        fmt::format("--listen {} --without-tokens: others could read and write everything; say --insecure if that is "
                    "meant",
                    listen));
  }
}

std::string host_of(const std::string& address) {
  return address.find(':') == std::string::npos ? address : '[' + address + ']';
}

/// The options that were given, on the command line or in the file.
std::map<std::string, std::string> given_options(const CLI::App& app) {
  std::map<std::string, std::string> given;
  for (const CLI::Option* option : app.get_options()) {
    if (option->count() > 0 && option->get_configurable()) {
      given[option->get_lnames().front()] = fmt::format("{}", fmt::join(option->results(), " "));
    }
  }
  return given;
}

/// Whether a complaint is about an option that only the options file gives.
bool is_of_file(const CLI::App& app, const std::vector<std::string>& arguments, const std::string& complaint) {
  const std::string option = complaint.substr(0, complaint.find_first_of(": "));
  return option.starts_with("--") && option != "--options" && app.get_config_ptr()->count() > 0 &&
         std::none_of(arguments.begin(), arguments.end(),
                      [&](const std::string& argument) { return argument.starts_with(option); });
}

/// What is checked and turned into options once all of it is known.
struct Words {
  std::string listen = "127.0.0.1:8080";
  std::vector<std::string> hosts, origins;
  std::string log_format = "text", access_log = "refused";
  std::int64_t slow_request_ms = 1000, access_log_mb = 64;
  bool insecure = false, without_tokens = false;
};

void declare_service(CLI::App& app, ServerOptions& options, Words& words) {
  app.add_option("--listen", words.listen, "ADDRESS:PORT; port 0 picks a free one")->capture_default_str();
  app.add_option("--data", options.data, "folder of the database, made if absent")->capture_default_str();
  app.add_option("--restore", options.restore,
                 "put this backup, checked, in the place of the database, keep that under another name, and end")
      ->check(CLI::ExistingFile)
      ->configurable(false);
  app.add_flag("--check", options.check,
               "check the options, profiles, certificate and data folder, print the findings, and end")
      ->configurable(false);
  app.add_flag("--new-database", options.new_database,
               "begin with an empty database although the one of this data folder is gone")
      ->configurable(false);
  app.add_option("--checkpoint-root", options.checkpoint_roots,
                 "hand out checkpoints below this folder too; may be repeated");
  app.add_option("--ui-dir", options.page_folder, "serve the page from this folder instead of the built-in one")
      ->check(CLI::ExistingDirectory);
  app.add_option("--nmt", options.nmt, "`nmt` program that translates with checkpoints; default the one beside this")
      ->check(CLI::ExistingFile);
  app.add_option("--translators", options.translators,
                 "checkpoints loaded at once to translate with, each by a process")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--translator-memory-mb", options.translator_memory_mb, "address space of each; 0 for no limit")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--profiles", options.profiles_file, "YAML file of ways to start runs, besides mpirun-local")
      ->check(CLI::ExistingFile);
  app.add_flag("--checkpoint-runs-on-exit", options.checkpoint_runs_on_exit,
               "at the end ask the runs that were started here to save and stop; without it they go on");
}

/// What is written down about the server's work and its clients.
void declare_logs(CLI::App& app, ServerOptions& options, Words& words) {
  app.add_option("--log-level", options.log_level, "trace, debug, info, warn or error")->capture_default_str();
  app.add_option("--log-format", words.log_format,
                 "of the lines on standard error: text, or json for one object a line")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  app.add_option("--access-log", words.access_log,
                 "which requests have a line of JSON in the access log: refused (and slow ones), all or none")
      ->check(CLI::IsMember({"refused", "all", "none"}))
      ->capture_default_str();
  app.add_option("--access-log-file", options.access_log.file,
                 "the access log; - for standard error; default DATA/access.log");
  app.add_option("--access-log-mb", words.access_log_mb,
                 "size at which it is renamed and begun anew, with four older files kept; 0 for never")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  app.add_option("--slow-request-ms", words.slow_request_ms,
                 "a request that waits and is worked on for longer is slow; 0: none is")
      ->check(CLI::Range(0, 3'600'000))
      ->capture_default_str();
}

/// What the audit keeps.
void declare_audit(CLI::App& app, ServerOptions& options) {
  app.add_option("--audit-days", options.audit_days,
                 "days for which the audit keeps what operators, administrators and the server itself did")
      ->check(CLI::Range(1, 36'500))
      ->capture_default_str();
}

void take_logs(ServerOptions& options, const Words& words) {
  using Which = http::AccessLog::Which;
  options.json_log = words.log_format == "json";
  options.access_log.which = words.access_log == "all"    ? Which::all
                             : words.access_log == "none" ? Which::none
                                                          : Which::refused;
  options.access_log.slow = std::chrono::milliseconds(words.slow_request_ms);
  options.access_log.max_file_bytes = words.access_log_mb << 20;
}

/// Who may come in.
void declare_access(CLI::App& app, ServerOptions& options, Words& words) {
  app.add_option("--allow-host", words.hosts, "accept this name in Host headers; may be repeated");
  app.add_option("--allow-origin", words.origins,
                 "let this site's pages use the API from a browser: https://host[:port]; may be repeated");
  app.add_option("--request-rate", options.request_rate,
                 "requests a second by a token or an address, twice that at once; of reports 10 for each rank that "
                 "reports with a token, if that is more; 0 for no limit")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  app.add_option("--address-connections", options.address_connections,
                 "connections that one address beyond this machine may have; 0 for no limit")
      ->capture_default_str();
  auto* certificate = app.add_option("--tls-cert", options.tls_certificate,
                                     "speak https: PEM file with the certificate "
                                     "and its chain");
  app.add_option("--tls-key", options.tls_key, "PEM file with its key")->needs(certificate);
  app.add_flag("!--no-hsts", options.strict_transport,
               "do not tell browsers to use nothing but https on this host, at any port, for a year");
  app.add_flag("--new-admin-token", options.new_admin_token,
               "make another administrator's token and write it to DATA/admin.token")
      ->configurable(false);
  app.add_flag("--without-tokens", words.without_tokens, "let everyone in reach read and write everything");
  app.add_flag("--insecure", words.insecure, "listen beyond this machine without encryption");
  auto* proxy = app.add_flag("--behind-proxy", options.behind_proxy,
                             "a reverse proxy in front encrypts and says in X-Forwarded-For who asks");
  app.add_flag("--open-metrics", options.open_metrics,
               "/metrics needs no token from this machine; not where a proxy on this machine hands requests on")
      ->excludes(proxy);
}

}  // namespace

std::optional<ServerOptions> ServerOptions::parse(int argc, char** argv) {
  ServerOptions options;
  Words words;
  CLI::App app("Babelring's server: stores what training runs report, shows it, and hands out checkpoints.", "server");
  set_help_form(app);
  app.set_version_flag("--version", std::string("server ") + version, "print the version and end");
  declare_service(app, options, words);
  declare_access(app, options, words);
  declare_logs(app, options, words);
  declare_audit(app, options);
  add_options_file(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& answered) {
    app.exit(answered);
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    const std::string complaint = explain(app, arguments, error.what());
    throw UsageFailure(is_of_file(app, arguments, complaint)
                           ? fmt::format("{}: {}", app.get_config_ptr()->as<std::string>(), complaint)
                           : complaint);
  }
  options.given = given_options(app);
  if (app.get_config_ptr()->count() > 0) options.options_file = app.get_config_ptr()->as<std::string>();
  parse_listen(words.listen, options);
  options.tokens = !words.without_tokens;
  take_logs(options, words);
  check_exposure(options, words.listen, words.insecure);
  options.hosts.insert(host_of(options.address));
  for (const std::string& host : words.hosts) options.hosts.insert(lower(host));
  for (const std::string& origin : words.origins) options.origins.insert(checked_origin(origin));
  return options;
}

std::vector<std::filesystem::path> ServerOptions::canonical_roots(const std::filesystem::path& data_folder) const {
  std::vector<std::filesystem::path> roots = {data_folder};
  for (const auto& root : checkpoint_roots) {
    std::error_code error;
    auto canonical = std::filesystem::canonical(root, error);
    if (error) throw UsageFailure(fmt::format("--checkpoint-root {}: {}", root.string(), error.message()));
    roots.push_back(std::move(canonical));
  }
  return roots;
}

std::vector<std::string> ServerOptions::dangers() const {
  std::vector<std::string> found;
  const bool local = is_loopback(address);
  if (!tokens) found.emplace_back("--without-tokens: everyone in reach may read and change everything");
  if (!local && tls_certificate.empty() && !behind_proxy) {
    found.emplace_back("--insecure: others on the network can read tokens and data on their way");
  }
  if (!local && behind_proxy) {
    found.push_back(fmt::format(
        "--behind-proxy --listen {}: who reaches this address without the proxy can claim any client address; "
        "listen on 127.0.0.1, or let a firewall admit the proxy alone",
        address));
  }
  std::error_code absent;
  const auto mode = std::filesystem::status(tls_key, absent).permissions();
  using std::filesystem::perms;
  if (!tls_key.empty() && !absent && (mode & (perms::others_read | perms::others_write)) != perms::none) {
    found.push_back(
        fmt::format("--tls-key {}: every user of this machine can read the key; chmod 600", tls_key.string()));
  }
  return found;
}

http::GateOptions ServerOptions::gate(http::Authenticator& authenticator, http::AuditTrail& audit) const {
  http::GateOptions gate;
  gate.names = {hosts, origins};
  gate.authenticator = tokens ? &authenticator : nullptr;
  gate.audit = &audit;
  gate.rates = {request_rate, 2 * request_rate};
  gate.behind_proxy = behind_proxy;
  gate.open_metrics = open_metrics;
  return gate;
}

translate::PoolOptions ServerOptions::translator_options() const {
  translate::PoolOptions pool;
  pool.program = nmt;
  pool.most_helpers = translators;
  pool.memory_mb = translator_memory_mb;
  if (!nmt.empty()) return pool;
  std::error_code absent;
  const auto beside = std::filesystem::read_symlink("/proc/self/exe", absent).parent_path() / "nmt";
  if (!absent && std::filesystem::exists(beside, absent)) pool.program = beside;
  return pool;
}

}  // namespace babelring
