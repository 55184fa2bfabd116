#pragma once

#include <functional>
#include <mutex>
#include <set>
#include <string>

#include "server/http/message.h"
#include "server/store/store.h"

namespace babelring::api {

/// Idempotency-Key: a request that creates or launches may be sent again without being done again. Thread-safe.
class Idempotency {
 public:
  explicit Idempotency(store::Store& store) : store_(store) {}

  /// Without the header simply what `make` answers. With it, `make` runs once for this caller and key within 24 hours;
  /// the same request gets the first answer again, with Idempotency-Replayed: true. Answers 429 and from 500 on, and
  /// what is thrown besides a Problem below 500, are not kept: the request may be tried again. Throws Problem 422
  /// key_reused when the key came with another request, 409 key_in_flight while the first one is being answered, 409
  /// outcome_unknown when the server ended before it had answered, 400 bad_key. `kept`, unless empty, turns the body
  /// of the first answer into what is kept of it.
  http::Response once(const http::Request& request, const std::function<http::Response()>& make,
                      const std::function<std::string(const std::string&)>& kept = {});

 private:
  store::Store& store_;
  std::mutex mutex_;
  std::set<std::string> in_flight_;  // owner and key
};

}  // namespace babelring::api
