#include "server/access/idempotency.h"

#include <algorithm>
#include <optional>

#include "base/clock.h"
#include "base/digest.h"
#include "base/json.h"
#include "server/access/audited.h"
#include "server/http/reply.h"
#include "server/store/access.h"

namespace babelring::access {
namespace {

constexpr std::int64_t kept_ms = 24 * 3'600'000;
constexpr std::size_t max_idempotency_key_bytes = 255;

/// The header's value without the optional quotes of a structured field.
std::string key_of(const http::Request& request) {
  std::string key(request.header("idempotency-key"));
  if (key.size() >= 2 && key.front() == '"' && key.back() == '"') key = key.substr(1, key.size() - 2);
  const bool formed = !key.empty() && key.size() <= max_idempotency_key_bytes &&
                      std::all_of(key.begin(), key.end(), [](unsigned char c) { return c > 0x20 && c < 0x7f; });
  if (!formed) {
    throw http::Problem(400, "bad_key", "Idempotency-Key: expected 1 to 255 visible ASCII characters");
  }
  return key;
}

http::Response replay(const store::StoredResponse& kept) {
  http::Response response;
  response.status = kept.status;
  const auto headers = parse_json(kept.headers);
  for (const json::value& header : headers.value().as_array()) {
    response.set(std::string(header.at(0).as_string()), std::string(header.at(1).as_string()));
  }
  response.body = kept.body;
  return std::move(response.set("Idempotency-Replayed", "true"));
}

store::StoredResponse keep(const std::string& fingerprint, const http::Response& response,
                           const std::function<std::string(const std::string&)>& kept) {
  const auto* body = std::get_if<std::string>(&response.body);
  if (body == nullptr) fail("idempotency: expected a response with a string body");
  json::array headers;
  for (const auto& [name, value] : response.headers) headers.push_back({name, value});
  return {fingerprint, response.status, to_text(headers), kept && response.status < 300 ? kept(*body) : *body};
}

/// Removes a name from a set at the end of the scope.
class Held {
 public:
  Held(std::mutex& mutex, std::set<std::string>& names, std::string name)
      : mutex_(mutex), names_(names), name_(std::move(name)) {
    const std::lock_guard lock(mutex_);
    fresh_ = names_.insert(name_).second;
  }
  ~Held() {
    if (!fresh_) return;
    const std::lock_guard lock(mutex_);
    names_.erase(name_);
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  bool fresh() const { return fresh_; }

 private:
  std::mutex& mutex_;
  std::set<std::string>& names_;
  const std::string name_;
  bool fresh_ = false;
};

}  // namespace

http::Response Idempotency::once(const http::Request& request, const std::function<http::Response()>& make,
                                 const std::function<std::string(const std::string&)>& kept) {
  if (request.header("idempotency-key").empty()) return make();
  const std::string key = key_of(request);
  const std::string owner = request.caller ? request.caller->token : request.actor;
  const std::string fingerprint = sha256_hex(request.method + " " + request.target + "\n" + request.body);
  const Held held(mutex_, in_flight_, owner + " " + key);
  if (!held.fresh()) {
    const http::Problem problem(409, "key_in_flight", "the first request with this key is still in progress");
    return http::problem_response(problem, request.id).set("Retry-After", "1");
  }
  const std::int64_t now_ms = wall_time_ms();
  const auto earlier = write(store_, [&](store::Database& database) {
    return store::claim_key(database, owner, key, fingerprint, now_ms, now_ms - kept_ms);
  });
  if (earlier) {
    if (earlier->fingerprint != fingerprint) {
      throw http::Problem(422, "key_reused", "this Idempotency-Key was used for a different request");
    }
    if (earlier->status == 0) {
      throw http::Problem(
          409, "outcome_unknown",
          "the server ended during the first request: check whether it took effect, then use a new key");
    }
    return replay(*earlier);
  }
  std::optional<http::Response> response;
  try {
    response = make();
  } catch (const http::Problem& problem) {
    response = http::problem_response(problem, request.id);
  } catch (...) {
    write(store_, [&](store::Database& database) { store::release_key(database, owner, key); });
    throw;
  }
  write(store_, [&](store::Database& database) {
    if (response->status >= 500 || response->status == 429) {
      store::release_key(database, owner, key);
    } else {
      store::store_response(database, owner, key, keep(fingerprint, *response, kept));
    }
  });
  return std::move(*response);
}

}  // namespace babelring::access
