#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iostream>
#include <optional>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/files.h"
#include "base/log.h"
#include "base/options/program.h"
#include "base/repeating_thread.h"
#include "nmt/core/machine.h"
#include "server/access/audited.h"
#include "server/alerts/alert_watch.h"
#include "server/api/control.h"
#include "server/api/routes.h"
#include "server/api/spool_intake.h"
#include "server/artifacts/checkpoint_files.h"
#include "server/artifacts/exports.h"
#include "server/http/server.h"
#include "server/reload.h"
#include "server/server_options.h"
#include "server/store/backup.h"
#include "server/store/home.h"
#include "server/translate/pool.h"
#include "server/webhooks/message.h"
#include "server/webhooks/sender.h"

namespace babelring {
namespace {

/// Blocks until one of the blocked signals arrives, and returns it.
int wait_for_signal();

/// Waits for at most `time` for one of the blocked signals except SIGHUP; nothing if none came.
std::optional<int> wait_for_signal(std::chrono::milliseconds time);

sigset_t signal_set(std::initializer_list<int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  return set;
}

/// Ignores signals that would terminate the process and have no meaning for a server (SIGPIPE, SIGUSR1, SIGALRM, …),
/// and blocks SIGHUP for wait_for_signal(). Call this before any thread is started.
void ignore_signals() {
  // With SIGPIPE and SIGXFSZ ignored, writing to a closed socket or past the file size limit returns an error.
  for (const int signal : {SIGPIPE, SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF, SIGIO, SIGPWR, SIGSTKFLT, SIGXFSZ}) {
    std::signal(signal, SIG_IGN);
  }
  for (int signal = SIGRTMIN; signal <= SIGRTMAX; ++signal) std::signal(signal, SIG_IGN);
  const sigset_t hangup = signal_set({SIGHUP});
  pthread_sigmask(SIG_BLOCK, &hangup, nullptr);
}

/// Also blocks SIGINT, SIGTERM, SIGQUIT and SIGXCPU in this thread and the threads it starts.
void block_signals() {
  const sigset_t termination = signal_set({SIGINT, SIGTERM, SIGQUIT, SIGXCPU});
  pthread_sigmask(SIG_BLOCK, &termination, nullptr);
}

int wait_for_signal() {
  const sigset_t all = signal_set({SIGHUP, SIGINT, SIGTERM, SIGQUIT, SIGXCPU});
  int signal = 0;
  sigwait(&all, &signal);
  return signal;
}

std::optional<int> wait_for_signal(std::chrono::milliseconds time) {
  const sigset_t ends = signal_set({SIGINT, SIGTERM, SIGQUIT, SIGXCPU});
  const timespec wait = {time.count() / 1000, static_cast<long>(time.count() % 1000) * 1'000'000};
  const int signal = sigtimedwait(&ends, nullptr, &wait);
  return signal > 0 ? std::optional(signal) : std::nullopt;
}

/// The signal's name, for example "SIGHUP"; its number as text if it has no name.
std::string signal_name(int signal) {
  const char* name = sigabbrev_np(signal);
  return name == nullptr ? std::to_string(signal) : std::string("SIG") + name;
}

/// Makes the first administrator's token and keeps it beside the database, for its owner alone to read.
std::string make_admin_token(const ServerOptions& options, api::Service& service, const std::filesystem::path& data) {
  if (!options.tokens) return {};
  const std::filesystem::path file = data / "admin.token";
  auto secret = service.tokens.first_admin();
  // A server that was killed between the database and the file has made a token that nobody knows.
  const auto tokens = service.tokens.list();
  const bool never_seen = !std::filesystem::exists(file) &&
                          std::none_of(tokens.begin(), tokens.end(),
                                       [](const auto& token) { return token.scope == "admin" && token.used_ms; });
  if (!secret && (options.new_admin_token || never_seen)) secret = service.tokens.new_admin();
  if (secret) write_private_file(file, *secret + "\n");
  return secret.value_or("");
}

/// Where we listen; with `for_workers`, where processes of this host reach us.
std::string own_address(const ServerOptions& options, std::uint16_t port, bool for_workers) {
  const char* scheme = options.tls_certificate.empty() ? "http" : "https";
  const bool v6 = options.address.find(':') != std::string::npos;
  const bool everywhere = options.address == "0.0.0.0" || options.address == "::";
  if (for_workers && everywhere) return fmt::format("{}://{}:{}", scheme, v6 ? "[::1]" : "127.0.0.1", port);
  return fmt::format("{}://{}{}{}:{}", scheme, v6 ? "[" : "", options.address, v6 ? "]" : "", port);
}

void announce(const ServerOptions& options, std::uint16_t port, const std::filesystem::path& data,
              const std::string& admin) {
  const std::string address = own_address(options, port, false) + "/";
  write_file_atomically(data / "address", address + "\n");
  const auto say = [&](const std::string& line) {
    if (options.json_log) {
      spdlog::info(line);
    } else {
      std::cout << line << std::endl;
    }
  };
  say("babelring server listening on " + address);
  if (admin.empty()) return;
  const std::string file = (data / "admin.token").string();
  if (isatty(STDOUT_FILENO) == 1 && !options.json_log) {
    say(fmt::format("dashboard, with an administrator's token (also in {}): {}#token={}", file, address, admin));
  } else {  // a log is kept for long and read by others
    say("a new administrator's token is in " + file);
  }
}

launch::ControlOptions control_options(const ServerOptions& options, const std::filesystem::path& data) {
  launch::ControlOptions control;
  control.profiles = read_profiles_of(options);
  control.worker = launch::default_worker();
  control.runs_folder = data / "runs";
  return control;
}

/// Joins what starts runs with what serves them.
void connect_control(launch::ControlPlane& control, api::Service& service, const ServerOptions& options) {
  service.control = &control;
  control.on_change([&service](const std::string& run) { api::publish_change(service, run); });
  control.on_purge(
      [&service](const store::CheckpointRow& checkpoint) {
        artifacts::remove_folder(artifacts::folder_of(service.checkpoint_roots, checkpoint),
                                 artifacts::manifest_of(checkpoint));
      },
      [&service](store::Database& database, const std::string& run) {
        service.audit.append(database,
                             access::note_of_server("DELETE", "/api/v1/runs/{run}", "/api/v1/runs/" + run, 204));
      });
  if (!options.tokens) return;
  control.on_launch([&service](const std::string& run) {
    return std::vector<std::string>{"BABELRING_TOKEN=" + service.tokens.create_run_token(run)};
  });
}

/// Takes the records of ended runs, for a few seconds: the rest follows while the server works.
void take_spools(api::SpoolIntake& spools) {
  try {
    spools.take(SteadyClock::now() + std::chrono::seconds(5));
  } catch (const std::exception& failure) {
    spdlog::error("spools: {}", failure.what());
  }
}

http::Server::Options server_options(const ServerOptions& options) {
  http::Server::Options http_options;
  http_options.address = options.address;
  http_options.port = options.port;
  http_options.tls_certificate = options.tls_certificate;
  http_options.tls_key = options.tls_key;
  http_options.limits.connections_an_address = options.behind_proxy ? 0 : options.address_connections;
  http_options.limits.strict_transport = options.strict_transport;
  if (const auto memory = static_cast<std::int64_t>(host_memory_info().total); memory > 0) {
    http_options.limits.body_bytes_in_all = std::min(http_options.limits.body_bytes_in_all, memory / 8);
  }
  return http_options;
}

void restore(const ServerOptions& options) {
  const store::Restored done = store::restore(options.data, options.restore);
  if (!done.replaced.empty()) std::cout << "the database that was there is now " << done.replaced.string() << '\n';
  std::cout << fmt::format("{} is now a copy of {}: {} bytes, schema {}\n", done.database.string(),
                           options.restore.string(), done.bytes, done.schema);
}

/// Reloads at each SIGHUP, until a signal asks for the end; returns that one.
int wait_for_end(Reload& reload) {
  int signal = wait_for_signal();
  for (; signal == SIGHUP; signal = wait_for_signal()) reload.run();
  return signal;
}

/// Asks runs to save and end before the server does: those whose processes end with its container, or, with
/// --checkpoint-runs-on-exit, all. Stores their records until they have ended, for at most --exit-grace or until a
/// second signal.
void suspend_runs(launch::ControlPlane& control, const ServerOptions& options) {
  const bool all = options.checkpoint_runs_on_exit;
  if (!all && !launch::ends_its_container()) return;
  control.suspend_runs(all);
  const auto until = SteadyClock::now() + std::chrono::seconds(options.exit_grace_s);
  while (control.is_suspending()) {
    if (SteadyClock::now() >= until) {
      spdlog::warn("runs have not saved and ended within {} s (--exit-grace)", options.exit_grace_s);
      return;
    }
    if (const auto signal = wait_for_signal(std::chrono::milliseconds(50))) {
      spdlog::warn("{}: ending before runs have saved", signal_name(*signal));
      return;
    }
  }
}

/// Stores what webhooks tell of an alert.
void queue_messages(store::Database& database, const store::AlertRow& alert) {
  const auto kind = alerts::kind_of(alert.kind);
  webhooks::queue_alert(database, alert, kind && alerts::is_event(*kind));
}

/// `read_options` reads the options again.
void run(const ServerOptions& options, std::function<std::optional<ServerOptions>()> read_options) {
  block_signals();
  store::Store store(options.data, options.new_database);
  events::EventHub events;
  api::Service service{store, events, options.canonical_roots(store.folder())};
  store.write([&](store::Database& database) {
    store::follow_data_folder(database, store.folder(), service.checkpoint_roots);
  });
  const char* const ca_file = std::getenv("BABELRING_CA_FILE");
  webhooks::Sender webhooks(store, {.ca_file = ca_file == nullptr ? "" : ca_file});  // ends after the alerts
  service.webhooks = &webhooks;
  const auto tell = [&](const store::AlertRow& alert) {
    api::publish_alert(service, alert);
    webhooks.wake();
  };
  alerts::AlertWatch alerts(store, service.checkpoint_roots, tell, std::chrono::seconds(2), queue_messages);
  service.alerts = &alerts;
  service.audit.keep_for(std::int64_t{options.audit_days} * 86'400'000);
  api::SpoolIntake spools(service);  // ends after the supervisor, which uses it first
  launch::ControlPlane control(store, control_options(options, store.folder()));
  connect_control(control, service, options);
  const std::string admin = make_admin_token(options, service, store.folder());
  const RepeatingThread closer("readers", std::chrono::seconds(10), [&store] { store.close_unused_readers(); });
  auto access_options = options.access_log;
  if (access_options.file.empty()) access_options.file = store.folder() / "access.log";
  http::AccessLog access_log(access_options);  // ends after the server
  service.access_log = &access_log;
  artifacts::Exports exports(store, options.export_limits());  // ends after the server, as its handlers use it
  service.exports = &exports;
  http::Server server(server_options(options));
  translate::Pool translators(options.translator_options());  // ends before the server: it answers through it
  service.translators = &translators;
  control.hear_until(
      [lanes = server.lanes()](const std::string& run) { return lanes->handled_until(http::Lane::heartbeat, run); });
  // Before runs are supervised, as an attempt may have ended well while the server was away; requests need not wait.
  control.begin_with([&spools] { take_spools(spools); });
  const RepeatingThread spool_thread("spools", std::chrono::minutes(1), [&spools] { spools.take(); });
  control.start(own_address(options, server.port(), true));  // before requests are served: they read its profiles
  http::AdmissionOptions admission = options.admission_options(service.tokens, service.audit);
  admission.ranks = &service.ranks;
  admission.access_log = &access_log;
  server.start([&](http::Dispatcher::Executor executor) {
    service.lanes = executor;
    return http::Dispatcher(api::make_router(service), http::StaticFiles(http::page_files(), options.page_folder),
                            admission, std::move(executor));
  });
  announce(options, server.port(), store.folder(), admin);
  webhooks.start(own_address(options, server.port(), false) + "/");
  forgive_lost_output();
  for (const std::string& danger : options.security_warnings()) spdlog::warn("{}", danger);

  Reload reload(options, std::move(read_options), server, control, access_log);
  spdlog::info("{}: ending", signal_name(wait_for_end(reload)));
  spools.stop();
  suspend_runs(control, options);
  server.stop();
}

}  // namespace

}  // namespace babelring

int main(int argc, char** argv) {
  return babelring::run_program("server", [&] {
    babelring::ignore_signals();
    const auto read_options = [=] { return babelring::ServerOptions::parse(argc, argv); };
    const auto options = read_options();
    if (!options) return 0;
    babelring::init_log("", options->log_level);
    babelring::http::set_log_format(options->json_log ? babelring::http::LogFormat::json
                                                      : babelring::http::LogFormat::text);
    if (options->check) return babelring::check_start(*options);
    if (!options->restore.empty()) {
      babelring::restore(*options);
    } else if (!options->moved.empty()) {
      std::cout << babelring::store::move_folder(options->data, options->moved) << '\n';
    } else {
      babelring::run(*options, read_options);
    }
    return 0;
  });
}
