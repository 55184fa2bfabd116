#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace babelring::http {

struct BodyMemoryState;

/// The memory for the bodies of requests that are being read or answered. Each client, by its token or address, may
/// hold as much as is still free after it: a single one half of all, two a third each, n a share of 1 / (n + 1), so
/// that there is always room for another client. Thread-safe.
class BodyMemory {
 public:
  explicit BodyMemory(std::int64_t bytes);
  BodyMemory(const BodyMemory&) = delete;
  BodyMemory& operator=(const BodyMemory&) = delete;

  /// What one body holds; given back on destruction. A request, and so its room, may outlive the server.
  class Room {
   public:
    Room(const BodyMemory& memory, std::string client) : state_(memory.state_), client_(std::move(client)) {}
    ~Room();
    Room(const Room&) = delete;
    Room& operator=(const Room&) = delete;
    /// Holds `bytes` from now on; false, and nothing changes, if that is more than the client may have now.
    bool grow_to(std::int64_t bytes);
    /// Whether grow_to() would succeed at this moment.
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
