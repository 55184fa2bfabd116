#pragma once

#include <spdlog/formatter.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "server/http/dispatcher.h"
#include "server/http/limits.h"

namespace babelring::http {

enum class LogFormat { text, json };

/// Formatter of the server log: one line per message, with tokens redacted.
/// text: `2026-11-21T09:15:30.123+01:00 info: message`, in local time, with control bytes escaped.
/// json: `{"time":"2026-11-21T08:15:30.123Z","level":"info","text":"message"}`.
std::unique_ptr<spdlog::formatter> log_formatter(LogFormat format);

/// Sets the format of the default logger created by init_log().
void set_log_format(LogFormat format);

/// An HTTP server: the listening socket, its connections and the threads that serve them.
class Server {
 public:
  struct Options {
    std::string address = "127.0.0.1";
    std::uint16_t port = 0;  // 0: any free port
    Limits limits;
    /// PEM files: the certificate with its chain, and its key. Empty: no TLS.
    std::filesystem::path tls_certificate, tls_key;
    std::size_t io_threads = 2;
    LaneTable lanes = default_lanes();  // threads that may block on the database
  };

  /// Binds and listens. Requests wait until start(). Throws Failure if the address cannot be bound.
  explicit Server(const Options& options);
  /// Calls stop().
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Starts to serve. `make` receives the lanes that run handlers and returns the dispatcher.
  void start(const std::function<Dispatcher(Dispatcher::Executor)>& make);
  /// Stops accepting connections, waits up to limits.drain for requests in flight, then closes all connections. Returns
  /// when all threads have ended.
  void stop();

  /// Replaces the certificate and key for new connections; existing connections keep theirs. Requires TLS. Returns
  /// describe_certificate(). Throws UsageFailure, and changes nothing, if the files are invalid. Thread-safe.
  std::string use_certificate(const std::filesystem::path& certificate, const std::filesystem::path& key);
  /// Replaces the names of AdmissionOptions. Requires start(). Thread-safe.
  void allow(AllowedNames names);

  /// The lanes that run handlers. They may outlive this object.
  std::shared_ptr<const Lanes> lanes() const;
  std::uint16_t port() const;
  std::size_t connections() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace babelring::http
