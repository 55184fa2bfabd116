#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "server/http/dispatcher.h"
#include "server/http/limits.h"

namespace babelring::http {

/// The listening socket, its connections and the threads that serve them.
class Server {
 public:
  struct Options {
    std::string address = "127.0.0.1";
    std::uint16_t port = 0;  // 0: any free one
    Limits limits;
    /// Certificate with its chain, and key, both PEM: the server speaks TLS. Empty: it does not.
    std::filesystem::path tls_certificate, tls_key;
    std::size_t io_threads = 2;
    std::size_t handler_threads = 4;  // may wait for the database
  };

  /// Binds and listens; nothing is answered before start(). Throws Failure: the address cannot be had.
  explicit Server(const Options& options);
  /// stop()s.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Begins to answer. `make` gets the executor of the handlers' threads.
  void start(const std::function<Dispatcher(Dispatcher::Executor)>& make);
  /// Accepts no more, lets requests in flight end for up to limits.drain, then closes everything. Returns when all
  /// threads have ended.
  void stop();

  std::uint16_t port() const;
  std::size_t connections() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace babelring::http
