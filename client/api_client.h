#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "client/server_access.h"

namespace babelring {

/// A client of the server's JSON API. Methods throw Failure if there is no valid response, and ServerRefusal
/// (client/problem.h) if the status is not 2xx. Not thread-safe, except for cancel().
class ApiClient {
 public:
  explicit ApiClient(const ServerAccess& access, std::chrono::milliseconds timeout = std::chrono::milliseconds(30000));

  /// GET. `target` is the path and query after /api/v1: "/runs?state=running". Retries lost requests and a busy server.
  json::object get(const std::string& target);
  /// The same for a response that is not JSON: returns its body.
  std::string get_text(const std::string& target);
  /// Fetches the items of a paged list, page by page, up to `max` items.
  std::vector<json::object> get_items(const std::string& target, std::size_t max);
  /// POST, PUT, PATCH or DELETE. Returns the response body, or an empty object if there is none. A non-empty `key` is
  /// sent as Idempotency-Key. Lost requests and a busy server are then retried, and the server executes the request
  /// only once.
  json::object send(const std::string& method, const std::string& target, const json::object& body,
                    const std::string& key = {});

  HttpClient& http() { return http_; }
  const ServerAccess& access() const { return access_; }
  void cancel() { http_.cancel(); }

 private:
  HttpResponse send_with_retries(const HttpRequest& request, bool repeatable);

  ServerAccess access_;
  HttpClient http_;
};

/// Percent-encodes all bytes except letters, digits and -._~.
std::string percent_encoded(std::string_view text);

}  // namespace babelring
