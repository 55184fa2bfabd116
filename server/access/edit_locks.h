#pragma once

#include <array>
#include <functional>
#include <mutex>
#include <string_view>

namespace babelring::access {

/// Locks by resource name. Held from the check of If-Match until the change is written, so that two requests with the
/// same ETag cannot both succeed. Names may share a lock, so a thread must not hold two.
class EditLocks {
 public:
  [[nodiscard]] std::unique_lock<std::mutex> lock(std::string_view name) {
    return std::unique_lock(locks_[std::hash<std::string_view>()(name) % locks_.size()]);
  }

 private:
  std::array<std::mutex, 64> locks_;
};

}  // namespace babelring::access
