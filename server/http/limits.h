#pragma once

#include <chrono>
#include <cstddef>

namespace babelring::http {

/// What a client may cost us.
struct Limits {
  std::chrono::milliseconds header{10'000};       // from a request's first byte to the end of its head
  std::chrono::milliseconds body{30'000};         // the whole body
  std::chrono::milliseconds idle{60'000};         // between requests
  std::chrono::milliseconds write_stall{30'000};  // no byte taken by the client
  std::chrono::milliseconds heartbeat{15'000};    // comment on a quiet event stream
  std::chrono::milliseconds drain{10'000};        // for requests in flight at the end
  std::size_t connections = 12'000;
  std::size_t requests_a_connection = 10'000;
};

}  // namespace babelring::http
