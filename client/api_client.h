#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "client/server_access.h"

namespace babelring {

/// A client of the server's API, in JSON. One thread at a time, except for cancel(). Throws Failure where there is no
/// answer, ServerRefusal (client/problem.h) if it is not a success.
class ApiClient {
 public:
  explicit ApiClient(const ServerAccess& access, std::chrono::milliseconds timeout = std::chrono::milliseconds(30000));

  /// `target` is what follows /api/v1: "/runs?state=running".
  json::object get(const std::string& target);
  /// All items of a paged list, or the first `most`, page after page.
  std::vector<json::object> get_items(const std::string& target, std::size_t most);
  /// POST, PUT, PATCH or DELETE. `key`, if not empty, is sent as Idempotency-Key: a request that was lost on the way,
  /// or met a busy server, is then sent again, and still carried out once. Empty where the answer has no body.
  json::object send(const std::string& method, const std::string& target, const json::object& body,
                    const std::string& key = {});

  HttpClient& http() { return http_; }
  const ServerAccess& access() const { return access_; }
  void cancel() { http_.cancel(); }

 private:
  HttpAnswer ask(const HttpRequest& request, bool repeatable);

  ServerAccess access_;
  HttpClient http_;
};

/// A text as a part of a target: what is not a letter, digit or one of -._~ percent-encoded.
std::string percent_encoded(std::string_view text);

}  // namespace babelring
