#pragma once

#include <array>
#include <functional>
#include <mutex>
#include <string_view>

namespace babelring::api {

/// Locks by the name of what is changed, held from If-Match until the change is written: of two changes of the same
/// state, one is refused. Names may share a lock, so nobody holds two.
class EditLocks {
 public:
  [[nodiscard]] std::unique_lock<std::mutex> lock(std::string_view name) {
    return std::unique_lock(locks_[std::hash<std::string_view>()(name) % locks_.size()]);
  }

 private:
  std::array<std::mutex, 64> locks_;
};

}  // namespace babelring::api
