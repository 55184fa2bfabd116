#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace babelring::bench {

/// A minimal blocking HTTP connection on loopback: the measured work is the server's.
class Connection {
 public:
  /// Throws Failure without a listener.
  Connection(std::uint16_t port, std::string token);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// Sends a POST with JSON and waits for its answer. The status; 0 when the connection ended.
  int post(const std::string& path, std::string_view body);
  /// Sends a GET; the caller reads the answer.
  void get(const std::string& path);
  int descriptor() const { return socket_; }

 private:
  void send_all(std::string_view bytes) const;
  int socket_;
  std::string token_;
};

}  // namespace babelring::bench
