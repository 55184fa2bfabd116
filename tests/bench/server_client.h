#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace babelring::bench {

/// A blocking HTTP connection on loopback, as plain as can be, so that the server is what is measured.
class Connection {
 public:
  /// Throws Failure if nobody listens.
  Connection(std::uint16_t port, std::string token);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// Sends a POST with JSON and waits for its answer. The status; 0 when the connection ended.
  int post(const std::string& path, std::string_view body);
  /// Sends a GET; what comes is the caller's.
  void get(const std::string& path);
  int descriptor() const { return socket_; }

 private:
  void send_all(std::string_view bytes) const;
  int socket_;
  std::string token_;
};

}  // namespace babelring::bench
