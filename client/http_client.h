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
  std::string target;          // begins with /; the path of the server's address is prepended
  std::string body = {};       // JSON
  std::vector<std::pair<std::string, std::string>> headers = {};
};

struct HttpResponse {
  int status = 0;
  std::string body;
  std::optional<std::chrono::seconds> retry_after;  // from Retry-After, if it is in seconds
  std::map<std::string, std::string> headers = {};  // names in lower case
  bool success() const { return status / 100 == 2; }
  /// A header's value; empty if absent.
  std::string_view header(const std::string& lower_case_name) const;
};

struct HttpClientOptions {
  /// Applies separately to the name lookup, the connection, the TLS handshake, sending, and receiving the response.
  /// With a BodySink, applies to each read of the body.
  std::chrono::milliseconds timeout{10000};
  std::string token = {};              // sent as Authorization: Bearer; empty: none
  std::filesystem::path ca_file = {};  // PEM file of trusted certificate authorities; empty: the system's
  HostLookup::Resolver resolver = {};  // empty: the system's
};

/// Why a TLS handshake failed.
enum class TlsFault {
  none,            // it did not fail
  expired,         // the certificate, or one of its chain, has expired
  not_yet_valid,   // or is valid from a later time on
  self_signed,     // the certificate is its own authority and not trusted
  unknown_issuer,  // an authority of the chain is not trusted, or an intermediate certificate is missing
  wrong_host,      // the certificate is for other names
  no_tls,          // the answer is not TLS
  other
};

/// An HTTP/1.1 client for one server that uses one persistent connection. Not thread-safe, except for cancel().
class HttpClient {
 public:
  /// `address`: http://host:port or https://host:port, with an optional path prefix. Throws UsageFailure if the
  /// address, the token or the CA file is invalid.
  explicit HttpClient(std::string_view address, HttpClientOptions options = {});
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  /// Receives the body of a 2xx response in pieces, with the response's status and headers. Return false to stop.
  using BodySink = std::function<bool(const HttpResponse& head, std::string_view piece)>;

  /// Sends a request and returns the response, whatever its status. The body is limited to 16 MiB; with a sink, the
  /// body of a 2xx response goes there without a limit. The Error describes a transport failure; the server may or may
  /// not have executed the request. If a persistent connection turns out to be closed by the server, reconnects and
  /// retries once.
  Result<HttpResponse> send(const HttpRequest& request, const BodySink& sink = {});

  /// Sends a POST request with a JSON body.
  Result<HttpResponse> post(std::string_view target, std::string body);

  /// Makes the current and all later requests return an Error at once. Thread-safe.
  void cancel();
  bool cancelled() const;

  /// Why the last connection failed in its TLS handshake; `none` if it did not.
  TlsFault tls_fault() const;

  /// The server's address without a trailing slash, for messages.
  const std::string& address() const;

 private:
  struct Connection;
  std::unique_ptr<Connection> connection_;
};

}  // namespace babelring
