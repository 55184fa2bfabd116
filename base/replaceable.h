#pragma once

#include <memory>
#include <mutex>
#include <utility>

namespace babelring {

/// A shared value that can be replaced while other threads use it. A thread that called get() keeps its value alive.
/// Thread-safe.
template <class T>
class Replaceable {
 public:
  explicit Replaceable(std::shared_ptr<T> value = nullptr) : value_(std::move(value)) {}

  std::shared_ptr<T> get() const {
    const std::lock_guard lock(mutex_);
    return value_;
  }
  void set(std::shared_ptr<T> value) {
    const std::lock_guard lock(mutex_);
    value_.swap(value);  // the old value is released after the lock
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<T> value_;
};

}  // namespace babelring
