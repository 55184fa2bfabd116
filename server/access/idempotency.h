#pragma once

#include <functional>
#include <mutex>
#include <set>
#include <string>

#include "server/http/message.h"
#include "server/store/store.h"

namespace babelring::access {

/// Idempotency-Key: makes retries of requests that create or launch something safe. Thread-safe.
class Idempotency {
 public:
  explicit Idempotency(store::Store& store) : store_(store) {}

  /// Without the header, returns make(). With it, runs `make` once per caller and key within 24 hours. A repeated
  /// request gets the first response again, with Idempotency-Replayed: true. Responses 429 and from 500 on, and
  /// exceptions other than a Problem below 500, are not stored, so the request may be retried. Throws Problem 422
  /// key_reused if the key belongs to another request, 409 key_in_flight while the first one is being handled, 409
  /// outcome_unknown if the server ended before it had responded, 400 bad_key. `kept`, unless empty, maps the body of
  /// the first response to the stored body.
  http::Response once(const http::Request& request, const std::function<http::Response()>& make,
                      const std::function<std::string(const std::string&)>& kept = {});

 private:
  store::Store& store_;
  std::mutex mutex_;
  std::set<std::string> in_flight_;  // owner and key
};

}  // namespace babelring::access
