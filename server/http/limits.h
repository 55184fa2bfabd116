#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace babelring::http {

/// What a client may use of the server.
struct Limits {
  std::chrono::milliseconds header{10'000};        // from the first byte of a request head to its end
  std::chrono::milliseconds body{30'000};          // the whole body
  std::chrono::milliseconds body_grace{5'000};     // before it must have come at body_bytes_a_second
  std::chrono::milliseconds idle{60'000};          // between requests
  std::chrono::milliseconds answer{600'000};       // from the end of the body to the handler's response
  std::chrono::milliseconds write_stall{30'000};   // without the client taking a byte
  std::chrono::milliseconds heartbeat{15'000};     // between comments on a quiet event stream
  std::chrono::milliseconds parting_write{1'000};  // for a response after which the connection is closed
  std::chrono::milliseconds reserve_head{2'000};   // instead of header and idle, for a connection in the reserve
  std::chrono::milliseconds reserve_body{5'000};   // instead of body
  std::chrono::milliseconds drain{10'000};         // for requests in flight when the server stops
  std::size_t body_bytes_a_second = 1'000;
  std::size_t write_bytes_a_second = 1'000;                 // at least, over write_stall
  std::int64_t body_bytes_in_all = std::int64_t{64} << 20;  // of all requests being read or answered
  std::size_t connections = 12'000;                         // an eighth, 512 at most, for health checks and reports
  std::size_t connections_an_address = 256;                 // of one remote address; 0: no limit
  std::size_t requests_a_connection = 10'000;
  bool strict_transport = true;  // over TLS, browsers are told to use nothing else for a year (HSTS)
};

}  // namespace babelring::http
