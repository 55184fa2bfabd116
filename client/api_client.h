#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/failure.h"
#include "base/json.h"
#include "client/http_client.h"
#include "client/server_access.h"

namespace babelring {

/// The content of an error response: the members of a problem+json body (RFC 9457), otherwise, as `detail`, where a
/// redirect leads, the title of a page, or the first bytes of the body. All texts are printable.
struct Problem {
  int status = 0;
  std::string code, title, detail;
  /// An invalid member of the request. `place` is its JSON pointer and line: "/config, line 3".
  struct Fault {
    std::string place, detail;
  };
  std::vector<Fault> faults;
};

/// Extracts the problem from an error response.
Problem read_problem(const HttpResponse& answer);

/// True if a retry of the request would fail again: 4xx except 408 and 429.
bool is_final(int status);

/// Formats a problem as one line: "server says 404: no run 'r_…'".
std::string describe(const Problem& problem);

/// An error response of the server. The message is that of describe().
class ServerRefusal : public Failure {
 public:
  explicit ServerRefusal(Problem problem) : Failure(describe(problem)), problem_(std::move(problem)) {}
  const Problem& problem() const { return problem_; }

 private:
  Problem problem_;
};

/// A client of the server's JSON API. Methods throw Failure if there is no valid response, and ServerRefusal
/// (client/api_client.h) if the status is not 2xx. Not thread-safe, except for cancel().
class ApiClient {
 public:
  explicit ApiClient(const ServerAccess& access, std::chrono::milliseconds timeout = std::chrono::milliseconds(30000));

  /// GET. `target` is the path and query after /api/v1: "/runs?state=running". Retries lost requests and a busy server.
  json::object get(const std::string& target);
  /// A resource with its entity tag (ETag), for If-Match.
  struct Tagged {
    json::object value;
    std::string tag;
  };
  Tagged get_tagged(const std::string& target);
  /// The same for a response that is not JSON: returns its body.
  std::string get_text(const std::string& target);
  /// Fetches the items of a paged list, page by page, up to `max` items.
  std::vector<json::object> get_items(const std::string& target, std::size_t max);
  /// POST, PUT, PATCH or DELETE; an empty body of PUT and DELETE is not sent. Returns the response body, or an empty
  /// object if there is none. A non-empty `key` is
  /// sent as Idempotency-Key. Lost requests and a busy server are then retried, and the server executes the request
  /// only once. `headers`: further headers, as (name, value).
  json::object send(const std::string& method, const std::string& target, const json::object& body,
                    const std::string& key = {}, const std::vector<std::pair<std::string, std::string>>& headers = {});

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
