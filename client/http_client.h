#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "nmt/base/result.h"
#include "client/host_lookup.h"

namespace babelring {

struct HttpAnswer {
  int status = 0;
  std::string body;
  std::optional<std::chrono::seconds> retry_after;  // of the header, if it is a number of seconds
};

/// An HTTP/1.1 client of one server, over one kept-alive connection. One thread at a time, but for cancel().
class HttpClient {
 public:
  /// `address` is http://host:port, a path prefix allowed. Throws UsageFailure if it is something else.
  /// `timeout` bounds each of looking up the host's name, connect, send and receive.
  explicit HttpClient(std::string_view address, std::chrono::milliseconds timeout = std::chrono::milliseconds(10000),
                      HostLookup::Resolver resolver = {});
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  /// Posts JSON to `target` (beginning with /). The Error says what failed in the transport; the request may or may not
  /// have been done then. A connection that the server has closed meanwhile is made anew, once.
  Result<HttpAnswer> post(std::string_view target, std::string body);

  /// From any thread: makes a post() in progress, and every later one, return an Error at once.
  void cancel();

 private:
  struct Connection;
  std::unique_ptr<Connection> connection_;
};

}  // namespace babelring
