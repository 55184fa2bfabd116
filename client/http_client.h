#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "client/host_lookup.h"

namespace babelring {

struct HttpRequest {
  std::string method = "GET";  // GET, HEAD, POST, PUT, PATCH or DELETE
  std::string target;          // beginning with /; the address's own path goes before it
  std::string body = {};       // JSON
  std::vector<std::pair<std::string, std::string>> headers = {};
};

struct HttpAnswer {
  int status = 0;
  std::string body;
  std::optional<std::chrono::seconds> retry_after;  // of the header, if it is a number of seconds
  std::map<std::string, std::string> headers = {};  // names in lower case
  bool success() const { return status / 100 == 2; }
  /// Empty if absent.
  std::string_view header(const std::string& lower_case_name) const;
};

struct HttpClientOptions {
  /// Bounds each of: looking up the host's name, connecting, the TLS handshake, sending, and receiving a whole answer;
  /// where a body is handed on in pieces, each wait for the next piece.
  std::chrono::milliseconds timeout{10000};
  std::string token = {};              // sent as Authorization: Bearer; empty: none
  std::filesystem::path ca_file = {};  // PEM; authorities that https trusts; empty: the system's
  HostLookup::Resolver resolver = {};  // empty: the system's
};

/// An HTTP/1.1 client of one server, over one kept-alive connection. One thread at a time, but for cancel().
class HttpClient {
 public:
  /// `address` is http://host:port or https://host:port, a path prefix allowed. Throws UsageFailure if it is something
  /// else, or if the token or the file of authorities cannot be used.
  explicit HttpClient(std::string_view address, HttpClientOptions options = {});
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  /// Takes a success's body piece by piece as it arrives, with the answer's head; false ends the request there.
  using BodySink = std::function<bool(const HttpAnswer& head, std::string_view piece)>;

  /// The answer, whatever its status; at most 16 MiB of body. With a sink the body of a success (2xx) goes there and
  /// has no bound. The Error says what failed in the transport; the request may or may not have been done then. A kept
  /// connection that the server turns out to have closed, before a byte of the answer, is replaced once.
  Result<HttpAnswer> send(const HttpRequest& request, const BodySink& sink = {});

  /// send() of a POST of JSON.
  Result<HttpAnswer> post(std::string_view target, std::string body);

  /// From any thread: makes a request in progress, and every later one, return an Error at once.
  void cancel();
  bool cancelled() const;

  /// As given, without a slash at the end: for messages.
  const std::string& address() const;

 private:
  struct Connection;
  std::unique_ptr<Connection> connection_;
};

}  // namespace babelring
