#include "server/server_options.h"

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <charconv>
#include <list>
#include <memory>

#include "base/failure.h"
#include "base/files.h"
#include "base/options/completion.h"
#include "base/options/man_page.h"
#include "base/options/options.h"
#include "base/options/usage.h"
#include "base/text.h"
#include "base/version.h"

namespace babelring {
namespace {

/// One option as set in the file. Which member is used depends on the option's kind.
struct FileOption {
  std::string name, text;
  std::vector<std::string> list;
  bool flag = false;
};

class YamlOptions : public CLI::Config {
 public:
  explicit YamlOptions(const CLI::App& app) : app_(app) {}

  std::string to_config(const CLI::App*, bool, bool, std::string) const override { return {}; }

  std::vector<CLI::ConfigItem> from_config(std::istream&) const override {
    const auto file = app_.get_config_ptr()->as<std::string>();
    std::list<FileOption> options;
    OptionBinder binder;
    for (const CLI::Option* option : app_.get_options()) {
      if (option->get_configurable() && !option->get_lnames().empty()) bind(binder, *option, options.emplace_back());
    }
    load_yaml(binder, read_file(file), file);
    std::vector<CLI::ConfigItem> found;
    for (const FileOption& option : options) {
      CLI::ConfigItem item;
      item.name = option.name;
      item.inputs = option.list;
      if (!option.text.empty()) item.inputs.push_back(option.text);
      if (option.flag) item.inputs.emplace_back("true");
      if (!item.inputs.empty()) found.push_back(std::move(item));
    }
    return found;
  }

 private:
  static void bind(OptionBinder& binder, const CLI::Option& option, FileOption& into) {
    into.name = option.get_lnames().front();
    if (option.get_expected_min() == 0) {
      binder.flag(into.name.c_str(), into.flag, "");
    } else if (option.get_expected_max() > 1) {
      binder.list(into.name.c_str(), into.list, "");
    } else {
      binder.text(into.name.c_str(), into.text, "");
    }
  }

  const CLI::App& app_;
};

/// Adds `--options FILE`, a YAML file of the program's options. Keys are option names without dashes. The command line
/// overrides the file. Options marked as not configurable are rejected in the file. Call this after all other options
/// have been added. If the file is invalid, app.parse() throws UsageFailure with file, line and column.
void add_options_file(CLI::App& app) {
  app.config_formatter(std::make_shared<YamlOptions>(app));
  app.set_config("--options", "", "YAML file with these options; reloaded on SIGHUP")
      ->check(existing_file)
      ->type_name("FILE");
}

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

/// The origin in lower case. Throws UsageFailure unless it is scheme://host[:port] without a path.
std::string checked_origin(const std::string& text) {
  std::string origin = lower(text);
  const std::size_t start = origin.starts_with("https://") ? 8 : origin.starts_with("http://") ? 7 : 0;
  if (start == 0 || start == origin.size() || origin.find_first_of("/*?# ", start) != std::string::npos) {
    throw UsageFailure(fmt::format("--allow-origin: expected https://host or https://host:port, found '{}'", text));
  }
  return origin;
}

/// Refuses a non-loopback address without encryption or without tokens unless the user accepts the risk.
void check_exposure(const ServerOptions& options, const std::string& listen, bool insecure) {
  if (options.tls_certificate.empty() != options.tls_key.empty()) {
    throw UsageFailure("--tls-cert and --tls-key: expected both or none");
  }
  if (is_loopback(options.address) || insecure || options.behind_proxy) return;
  if (options.tls_certificate.empty()) {
    throw UsageFailure(
        fmt::format("--listen {}: tokens would be sent unencrypted; set --tls-cert and --tls-key, use a reverse proxy "
                    "and set --behind-proxy, or accept the risk with --insecure",
                    listen));
  }
  if (!options.tokens) {
    throw UsageFailure(
        fmt::format("--listen {} --without-tokens: anyone on the network could read and write everything; accept the "
                    "risk with --insecure",
                    listen));
  }
}

std::string host_of(const std::string& address) {
  return address.find(':') == std::string::npos ? address : '[' + address + ']';
}

/// The options set on the command line or in the options file.
std::map<std::string, std::string> given_options(const CLI::App& app) {
  std::map<std::string, std::string> given;
  for (const CLI::Option* option : app.get_options()) {
    if (option->count() > 0 && option->get_configurable()) {
      given[option->get_lnames().front()] = fmt::format("{}", fmt::join(option->results(), " "));
    }
  }
  return given;
}

/// Whether an error message is about an option set in the options file but not on the command line.
bool is_from_file(const CLI::App& app, const std::vector<std::string>& arguments, const std::string& message) {
  const std::string option = message.substr(0, message.find_first_of(": "));
  return option.starts_with("--") && option != "--options" && app.get_config_ptr()->count() > 0 &&
         std::none_of(arguments.begin(), arguments.end(),
                      [&](const std::string& argument) { return argument.starts_with(option); });
}

/// Raw option values, validated and converted after parsing.
struct RawOptions {
  std::string listen = "127.0.0.1:8080";
  std::vector<std::string> hosts, origins;
  std::string log_format = "text";
  std::int64_t slow_request_ms = 1000, access_log_mb = 64;
  bool insecure = false, without_tokens = false;
};

void declare_service(CLI::App& app, ServerOptions& options, RawOptions& raw) {
  app.add_option("--listen", raw.listen, "ADDRESS:PORT to listen on; port 0 picks a free port")->capture_default_str();
  app.add_option("--data", options.data, "data folder with the database; created if missing")->capture_default_str();
  app.add_option("--restore", options.restore,
                 "verify this backup, replace the database with it, keep the old database under another name, and exit")
      ->check(CLI::ExistingFile)
      ->configurable(false);
  app.add_option("--moved", options.moved,
                 "/OLD=/NEW: a folder with runs or checkpoints has moved: change the stored paths below OLD, and exit")
      ->configurable(false);
  app.add_flag("--check", options.check,
               "check options, profiles, certificate and data folder, print the results, and exit")
      ->configurable(false);
  app.add_flag("--new-database", options.new_database,
               "create an empty database if the data folder's database is missing")
      ->configurable(false);
  app.add_option("--checkpoint-root", options.checkpoint_roots,
                 "also serve checkpoints below this folder; may be repeated");
  app.add_option("--ui-dir", options.page_folder, "serve the dashboard from this folder instead of the built-in one")
      ->check(CLI::ExistingDirectory);
  app.add_option("--nmt", options.nmt,
                 "`nmt` program that translates and exports; default: the one in this program's folder")
      ->check(CLI::ExistingFile);
  app.add_option("--translators", options.translators,
                 "maximum number of translation processes; each holds one checkpoint")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--translator-precision", options.translator_precision,
                 "precision of their matmuls, as of nmt translate --precision: f32, bf16 or int8")
      ->check(CLI::IsMember({"f32", "bf16", "int8"}))
      ->capture_default_str();
  app.add_option("--translator-queue", options.translator_queue,
                 "maximum number of waiting translation requests, a quarter of them of one token or address")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  app.add_option("--translator-memory-mb", options.translator_memory_mb,
                 "address space limit of each process that translates or exports; 0: no limit")
      ->check(CLI::Range(0, 1 << 30))
      ->capture_default_str();
  app.add_option("--profiles", options.profiles_file, "YAML file of launch profiles, in addition to mpirun-local")
      ->check(CLI::ExistingFile);
  app.add_flag(
      "--checkpoint-runs-on-exit", options.checkpoint_runs_on_exit,
      "on exit, let the runs started by this server save a checkpoint and end; the next server continues them. "
      "By default runs go on without a server, except in a container, which they would end with");
  app.add_option("--exit-grace", options.exit_grace_s, "longest wait on exit, in seconds, for runs that save")
      ->check(CLI::Range(0, 86400))
      ->capture_default_str();
}

/// Server log and access log.
void declare_logs(CLI::App& app, ServerOptions& options, RawOptions& raw) {
  app.add_option("--log-level", options.log_level, "trace, debug, info, warn or error")->capture_default_str();
  app.add_option("--log-format", raw.log_format,
                 "format of the log on standard error: text, or json for one object per line")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  using Which = http::AccessLog::Which;
  add_choice(app, "--access-log", options.access_log.which,
             {{"refused", Which::refused}, {"all", Which::all}, {"none", Which::none}},
             "requests written to the access log: refused (includes slow requests), all or none");
  app.add_option("--access-log-file", options.access_log.file,
                 "access log file, JSON lines; -: standard error; default: DATA/access.log");
  app.add_option("--access-log-mb", raw.access_log_mb,
                 "maximum access log size before rotation; four old files are kept; 0: never rotate")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  app.add_option("--slow-request-ms", raw.slow_request_ms,
                 "requests that take longer, waiting included, count as slow; 0: none")
      ->check(CLI::Range(0, 3'600'000))
      ->capture_default_str();
}

/// Audit retention.
void declare_audit(CLI::App& app, ServerOptions& options) {
  app.add_option("--audit-days", options.audit_days,
                 "days to keep audit entries of operators, administrators and the server itself")
      ->check(CLI::Range(1, 36'500))
      ->capture_default_str();
}

void convert_logs(ServerOptions& options, const RawOptions& raw) {
  options.json_log = raw.log_format == "json";
  options.access_log.slow = std::chrono::milliseconds(raw.slow_request_ms);
  options.access_log.max_file_bytes = raw.access_log_mb << 20;
}

/// Access control, limits and TLS.
void declare_access(CLI::App& app, ServerOptions& options, RawOptions& raw) {
  app.add_option("--allow-host", raw.hosts, "accept this host name in Host headers; may be repeated");
  app.add_option("--allow-origin", raw.origins,
                 "allow browser requests from this origin, https://host[:port]; may be repeated");
  app.add_option("--request-rate", options.request_rate,
                 "requests per second and token or address, with bursts of twice that; reports may use 10 per second "
                 "and rank if that is more; 0: no limit")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  app.add_option("--address-connections", options.address_connections,
                 "maximum number of connections per remote address; 0: no limit")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  auto* certificate =
      app.add_option("--tls-cert", options.tls_certificate, "serve HTTPS with this certificate chain (PEM file)");
  app.add_option("--tls-key", options.tls_key, "private key of the certificate (PEM file)")->needs(certificate);
  app.add_flag("!--no-hsts", options.strict_transport,
               "do not send Strict-Transport-Security (HTTPS only, all ports of this host, for one year)");
  app.add_flag("--new-admin-token", options.new_admin_token,
               "create another administrator token and write it to DATA/admin.token")
      ->configurable(false);
  app.add_flag("--without-tokens", raw.without_tokens,
               "require no tokens: anyone who can connect can read and write everything");
  app.add_flag("--insecure", raw.insecure, "allow a non-loopback address without encryption");
  auto* proxy = app.add_flag("--behind-proxy", options.behind_proxy,
                             "a reverse proxy handles TLS and sets X-Forwarded-For to the client address");
  app.add_flag("--open-metrics", options.open_metrics,
               "/metrics needs no token from loopback; not for use behind a proxy on this machine")
      ->excludes(proxy);
}

}  // namespace

std::optional<ServerOptions> ServerOptions::parse(int argc, char** argv) {
  ServerOptions options;
  RawOptions raw;
  CLI::App app(
      "Babelring server: stores the reports of training runs, shows them on a dashboard, and serves checkpoints.",
      name_called(argv[0], "server"));
  set_help_form(app);
  app.set_version_flag("--version", std::string("server ") + version, "print the version and exit");
  declare_service(app, options, raw);
  declare_access(app, options, raw);
  declare_logs(app, options, raw);
  declare_audit(app, options);
  add_options_file(app);
  const OptionBinder no_keys;
  add_completion_option(app, no_keys);
  add_man_page_option(app, no_keys);
  try {
    if (!parse_command_line(app, argc, argv)) return std::nullopt;
  } catch (const UsageFailure& failure) {
    if (!is_from_file(app, {argv + 1, argv + argc}, failure.what())) throw;
    throw UsageFailure(fmt::format("{}: {}", app.get_config_ptr()->as<std::string>(), failure.what()));
  }
  options.given = given_options(app);
  if (app.get_config_ptr()->count() > 0) options.options_file = app.get_config_ptr()->as<std::string>();
  parse_listen(raw.listen, options);
  options.tokens = !raw.without_tokens;
  convert_logs(options, raw);
  check_exposure(options, raw.listen, raw.insecure);
  options.hosts.insert(host_of(options.address));
  for (const std::string& host : raw.hosts) options.hosts.insert(lower(host));
  for (const std::string& origin : raw.origins) options.origins.insert(checked_origin(origin));
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
  return without_repeats(roots, "--checkpoint-root");
}

std::vector<std::string> ServerOptions::security_warnings() const {
  std::vector<std::string> warnings;
  const bool local = is_loopback(address);
  if (!tokens) warnings.emplace_back("--without-tokens: anyone who can connect can read and change everything");
  if (!local && tls_certificate.empty() && !behind_proxy) {
    warnings.emplace_back("--insecure: tokens and data are sent unencrypted over the network");
  }
  if (!local && behind_proxy) {
    warnings.push_back(fmt::format(
        "--behind-proxy --listen {}: clients that bypass the proxy can forge their address; listen on 127.0.0.1, or "
        "let the firewall admit only the proxy",
        address));
  }
  std::error_code error;
  const auto mode = std::filesystem::status(tls_key, error).permissions();
  using std::filesystem::perms;
  if (!tls_key.empty() && !error && (mode & (perms::others_read | perms::others_write)) != perms::none) {
    warnings.push_back(
        fmt::format("--tls-key {}: other users of this machine can access the key; chmod 600", tls_key.string()));
  }
  return warnings;
}

http::AdmissionOptions ServerOptions::admission_options(http::Authenticator& authenticator,
                                                        http::AuditTrail& audit) const {
  http::AdmissionOptions admission;
  admission.names = {hosts, origins};
  admission.authenticator = tokens ? &authenticator : nullptr;
  admission.audit = &audit;
  admission.rates = {request_rate, 2 * request_rate};
  admission.behind_proxy = behind_proxy;
  admission.open_metrics = open_metrics;
  return admission;
}

translate::PoolOptions ServerOptions::translator_options() const {
  translate::PoolOptions pool;
  pool.program = nmt;
  pool.max_helpers = translators;
  pool.precision = translator_precision;
  pool.memory_mb = translator_memory_mb;
  pool.queue.requests = translator_queue;
  pool.queue.requests_an_owner = std::max<std::size_t>(1, translator_queue / 4);
  if (!nmt.empty()) return pool;
  std::error_code error;
  const auto sibling = std::filesystem::read_symlink("/proc/self/exe", error).parent_path() / "nmt";
  if (!error && std::filesystem::exists(sibling, error)) pool.program = sibling;
  return pool;
}

artifacts::ExportLimits ServerOptions::export_limits() const {
  const translate::PoolOptions pool = translator_options();
  artifacts::ExportLimits limits;
  limits.program = pool.program;
  limits.memory_mb = pool.memory_mb;
  return limits;
}

}  // namespace babelring
