#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "server/http/dispatcher.h"
#include "server/http/limits.h"

namespace babelring::http {

/// An HTTP server: the listening socket, its connections and the threads that serve them.
class Server {
 public:
  struct Options {
    std::string address = "127.0.0.1";
    std::uint16_t port = 0;  // 0: any free one
    Limits limits;
    /// PEM files of the certificate with its chain, and of its key. Empty: no TLS.
    std::filesystem::path tls_certificate, tls_key;
    std::size_t io_threads = 2;
    LaneTable lanes = default_lanes();  // their threads may block on the database
  };

  /// Binds and listens; nothing is answered before start(). Throws Failure if the address cannot be bound.
  explicit Server(const Options& options);
  /// Calls stop().
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Starts to answer. `make` is given the lanes that run handlers.
  void start(const std::function<Dispatcher(Dispatcher::Executor)>& make);
  /// Stops accepting, gives requests in flight up to limits.drain to end, then closes all connections. Returns when all
  /// threads have ended.
  void stop();

  /// Handshakes from now on use this certificate and key; connections go on with the one that they have. Requires TLS.
  /// Returns describe_certificate(). Throws UsageFailure if the files are wrong, and then changes nothing. Any thread.
  std::string use_certificate(const std::filesystem::path& certificate, const std::filesystem::path& key);
  /// Replaces the names that AdmissionOptions gave. Requires start(). Any thread.
  void allow(AllowedNames names);

  /// The lanes that handlers run in, also after this object has ended.
  std::shared_ptr<const Lanes> lanes() const;
  std::uint16_t port() const;
  std::size_t connections() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace babelring::http
