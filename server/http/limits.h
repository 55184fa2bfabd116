#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace babelring::http {

/// What a client may cost us.
struct Limits {
  std::chrono::milliseconds header{10'000};       // from a request's first byte to the end of its head
  std::chrono::milliseconds body{30'000};         // the whole body
  std::chrono::milliseconds body_grace{5'000};    // until it must come at body_bytes_a_second
  std::chrono::milliseconds idle{60'000};         // between requests
  std::chrono::milliseconds write_stall{30'000};  // no byte taken by the client
  std::chrono::milliseconds heartbeat{15'000};    // comment on a quiet event stream
  std::chrono::milliseconds drain{10'000};        // for requests in flight at the end
  std::size_t body_bytes_a_second = 1'000;
  std::int64_t body_bytes_in_all = std::int64_t{512} << 20;  // of bodies that are being read or answered
  std::size_t connections = 12'000;
  std::size_t connections_an_address = 256;  // of one client beyond this machine; 0: no limit
  std::size_t requests_a_connection = 10'000;
};

}  // namespace babelring::http
