#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "server/http/client_socket.h"
#include "server/http/limits.h"
#include "server/http/reply.h"
#include "server/http/request_head.h"

namespace babelring::http {

/// Reads the requests of a connection, heads and bodies, each within its deadline. A client that is too slow or sends
/// no valid request leaves a fault: send it and close the connection. References must outlive it. Used on the client's
/// thread.
class RequestReader {
 public:
  /// `reserve`: the connection has a reserved place, with shorter deadlines.
  RequestReader(ClientSocket& client, const Limits& limits, const BodyMemory& bodies, bool reserve)
      : client_(client), limits_(limits), bodies_(bodies), reserve_(reserve) {}

  /// Waits for the head of the next request. Returns false if the connection has ended, or with a fault.
  ClientSocket::Awaitable<bool> wait_for_head();
  /// Parses the head that has come. Returns nothing, with a fault, if it is malformed. Requires that wait_for_head()
  /// has returned true.
  std::optional<RequestHead> take_head();

  enum class Body {
    complete,
    no_room,  // no memory is left for it; the rest of it was not read
    over,     // the connection has ended, or there is a fault
  };
  /// Reads the request's body, of `request.content_length` bytes, with memory held by `request.room`.
  /// `expects_continue`: the client waits for 100 Continue.
  ClientSocket::Awaitable<Body> read_body(Request& request, bool expects_continue);
  /// Reads a body of `length` bytes and drops it. Returns false if the connection has ended, or with a fault.
  ClientSocket::Awaitable<bool> discard_body(std::int64_t length);

  /// Why the client is refused; nothing if the connection just ended.
  const std::optional<Problem>& fault() const { return fault_; }
  /// Frees the memory for further requests, of which there will be none.
  void free_buffer() { buffer_ = std::string(); }

 private:
  /// Sets the deadline of a body of which `have` bytes have come since `start`. Returns false with a fault if the body
  /// is too slow.
  bool extend_deadline(ClientSocket::Clock::time_point start, std::size_t have);

  ClientSocket& client_;
  const Limits& limits_;
  const BodyMemory& bodies_;
  const bool reserve_;
  bool any_ = false;  // a head was read before
  std::string buffer_;
  std::size_t head_bytes_ = 0;  // length of the head at the front of buffer_ that take_head() parses
  std::optional<Problem> fault_;
};

/// The owner of the memory that a request takes: its token, or its address without a token.
std::string memory_owner(const Request& request);

inline constexpr std::int64_t max_drained_bytes = std::int64_t{4} << 20;  // of bytes that are read only to be dropped

}  // namespace babelring::http
