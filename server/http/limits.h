#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace babelring::http {

/// Timeouts and resource limits for clients.
struct Limits {
  std::chrono::milliseconds header{10'000};        // from the first byte of a request head to its end
  std::chrono::milliseconds body{30'000};          // the whole body
  std::chrono::milliseconds body_grace{5'000};     // before body_bytes_a_second is enforced
  std::chrono::milliseconds idle{60'000};          // between requests
  std::chrono::milliseconds answer{600'000};       // from the end of the body to the handler's response
  std::chrono::milliseconds write_stall{30'000};   // without any progress of the client
  std::chrono::milliseconds heartbeat{15'000};     // between comments on a quiet event stream
  std::chrono::milliseconds closing_write{1'000};  // for a response after which the connection is closed
  std::chrono::milliseconds reserve_head{2'000};   // instead of header and idle, for a connection in the reserve
  std::chrono::milliseconds reserve_body{5'000};   // instead of body
  std::chrono::milliseconds drain{10'000};         // for requests in flight when the server stops
  std::size_t body_bytes_a_second = 1'000;
  std::size_t write_bytes_a_second = 1'000;                 // min rate over write_stall
  std::int64_t body_bytes_in_all = std::int64_t{64} << 20;  // total of all requests in progress
  std::size_t connections = 12'000;          // an eighth, max 512, is reserved for health checks and reports
  std::size_t connections_an_address = 256;  // per remote address; 0: no limit
  std::size_t requests_a_connection = 10'000;
  bool strict_transport = true;  // send HSTS for one year over TLS
};

}  // namespace babelring::http
