#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace babelring::testing {

/// The administrator of a TestServer.
inline const std::string admin_secret = "bbr_AdminOfTheTestServerAdminOfTheTestServer0000";
/// The header that sends a token, for requests written out by hand.
inline std::string authorization(const std::string& secret = admin_secret) {
  return "Authorization: Bearer " + secret + "\r\n";
}

struct Answer {
  int status = 0;                              // 0: the connection ended without an answer
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
};

/// A plain socket on loopback, so that tests can send any bytes. Reads give up after a minute. Where the
/// environment variable BABELRING_EXCHANGES names a file, each exchange is appended to it as a line of JSON, which
/// tests/contract holds against openapi.yaml.
class Client {
 public:
  /// get(), post() and request() send the token; none if it is empty.
  explicit Client(std::uint16_t port, std::string token = admin_secret, const std::string& host = "127.0.0.1");
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void send(std::string_view bytes);
  /// Sends what the connection takes without waiting, and returns how much; nothing if the peer has closed it.
  std::optional<std::size_t> send_some(std::string_view bytes);
  /// The next answer; `head` when it has no body.
  Answer receive(bool head = false);
  Answer get(const std::string& path, const std::string& headers = "");
  Answer post(const std::string& path, const std::string& body, const std::string& headers = "");
  /// Any method; a body goes as JSON. `headers` are whole lines.
  Answer request(const std::string& method, const std::string& path, const std::string& body = "",
                 const std::string& headers = "");
  /// Reads until the text was seen, or the connection or patience ends. Returns everything read.
  std::string read_until(std::string_view text);
  /// Ends this side of the connection (FIN); answers can still be read.
  void finish_sending();
  /// Ends the connection by a reset (RST).
  void reset();
  /// True if the peer closes within the patience.
  bool closed();

 private:
  ssize_t take(std::span<char> bytes);
  bool fill();
  void note_sent(std::string_view bytes);
  void note_answer(const Answer& answer);
  int socket_ = -1;
  std::string token_, buffer_;
  std::deque<std::pair<std::string, std::string>> asked_;  // method and target of requests not yet answered
};

}  // namespace babelring::testing
