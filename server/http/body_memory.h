#pragma once

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

}  // namespace babelring::http
