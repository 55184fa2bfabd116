#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace babelring::http {

struct BodyMemoryState;

/// Limits the memory for the bodies of requests that are being read or handled. A client, a token or an address, may
/// hold at most as much as remains free afterwards. Thus one client gets half of the memory, two get a third each, and
/// n get 1 / (n + 1) each, and there is always room for another client. Thread-safe.
class BodyMemory {
 public:
  explicit BodyMemory(std::int64_t bytes);
  BodyMemory(const BodyMemory&) = delete;
  BodyMemory& operator=(const BodyMemory&) = delete;

  /// The memory held by one body, released on destruction. A request, and so its room, may outlive the server.
  class Room {
   public:
    Room(const BodyMemory& memory, std::string client) : state_(memory.state_), client_(std::move(client)) {}
    ~Room();
    Room(const Room&) = delete;
    Room& operator=(const Room&) = delete;
    /// Changes the held memory to `bytes`. Returns false, and changes nothing, if the client may not hold that much
    /// now.
    bool grow_to(std::int64_t bytes);
    /// True if grow_to() would succeed now.
    bool could_grow_to(std::int64_t bytes) const;

   private:
    const std::shared_ptr<BodyMemoryState> state_;
    const std::string client_;
    std::int64_t bytes_ = 0;
  };

  /// Bytes held by all rooms.
  std::int64_t held() const;

 private:
  const std::shared_ptr<BodyMemoryState> state_;
};

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
