#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
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
  /// False if some are still there after `limit`.
  bool wait_empty(std::chrono::milliseconds limit);

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Session*, std::weak_ptr<Session>> sessions_;
};

}  // namespace babelring::http
