#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace babelring::http {

class Session;

/// The live sessions, and the memory their request bodies may take. Thread-safe.
class Connections {
 public:
  void add(const std::shared_ptr<Session>& session);
  void remove(Session* session);
  std::size_t count() const;
  std::vector<std::shared_ptr<Session>> all() const;
  /// Number of sessions from this address.
  std::size_t count_from(const std::string& address) const;

  /// A reservation of memory for a request body, released on destruction; false if none was left.
  class BodyRoom {
   public:
    BodyRoom() = default;
    BodyRoom(std::atomic<std::int64_t>& taken, std::int64_t bytes) : taken_(&taken), bytes_(bytes) {}
    BodyRoom(const BodyRoom&) = delete;
    BodyRoom& operator=(const BodyRoom&) = delete;
    ~BodyRoom() {
      if (taken_ != nullptr) taken_->fetch_sub(bytes_);
    }
    explicit operator bool() const { return taken_ != nullptr; }

   private:
    std::atomic<std::int64_t>* taken_ = nullptr;
    std::int64_t bytes_ = 0;
  };
  /// `most_in_all` bounds all reservations together.
  BodyRoom room_for_body(std::int64_t bytes, std::int64_t most_in_all);

  /// Waits until no session is left; false if some still are after `limit`.
  bool wait_empty(std::chrono::milliseconds limit);

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Session*, std::weak_ptr<Session>> sessions_;
  std::unordered_map<std::string, std::size_t> from_;  // sessions of each address
  std::atomic<std::int64_t> body_bytes_ = 0;
};

}  // namespace babelring::http
