#include "base/repeating_thread.h"

#include <spdlog/spdlog.h>

#include <exception>
#include <utility>

namespace babelring {

RepeatingThread::RepeatingThread(std::string name, std::chrono::milliseconds interval, std::function<void()> work)
    : name_(std::move(name)), interval_(interval), work_(std::move(work)), thread_([this] { loop(); }) {}

RepeatingThread::~RepeatingThread() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void RepeatingThread::wake() {
  {
    const std::lock_guard lock(mutex_);
    woken_ = true;
  }
  changed_.notify_one();
}

void RepeatingThread::loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait_for(lock, interval_, [this] { return stopping_ || woken_; });
    if (stopping_) return;
    woken_ = false;
    lock.unlock();
    try {
      work_();
    } catch (const std::exception& failure) {
      spdlog::error("{}: {}", name_, failure.what());
    }
    lock.lock();
  }
}

}  // namespace babelring
