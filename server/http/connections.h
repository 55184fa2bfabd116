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

/// The sessions that are alive. Thread-safe.
class Connections {
 public:
  void add(const std::shared_ptr<Session>& session);
  void remove(Session* session);
  std::size_t count() const;
  std::vector<std::shared_ptr<Session>> all() const;
  /// How many come from this address.
  std::size_t count_from(const std::string& address) const;

  /// Memory for a body, given back when it goes out of scope; false if there is none left.
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
  BodyRoom room_for_body(std::int64_t bytes, std::int64_t most_in_all);

  /// False if some are still there after `limit`.
  bool wait_empty(std::chrono::milliseconds limit);

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Session*, std::weak_ptr<Session>> sessions_;
  std::unordered_map<std::string, std::size_t> from_;  // sessions of each address
  std::atomic<std::int64_t> body_bytes_ = 0;
};

}  // namespace babelring::http
