#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace babelring::testing {

struct Answer {
  int status = 0;                              // 0: the connection ended without an answer
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
};

/// A plain socket on loopback, so that tests can send any bytes. Reads give up after a few seconds.
class Client {
 public:
  explicit Client(std::uint16_t port);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void send(std::string_view bytes);
  /// The next answer; `head` when it has no body.
  Answer receive(bool head = false);
  Answer get(const std::string& path, const std::string& headers = "");
  Answer post(const std::string& path, const std::string& body);
  /// Reads until the text was seen, or the connection or patience ends. Returns everything read.
  std::string read_until(std::string_view text);
  /// True if the peer closes within the patience.
  bool closed();

 private:
  bool fill();
  int socket_ = -1;
  std::string buffer_;
};

}  // namespace babelring::testing
