#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "nmt/core/device_stream.h"

namespace babelring {

/// A stream whose device is a thread, which runs queued work asynchronously and in order. handle() is this object,
/// which the fake NCCL recovers by from_handle(). As on a GPU, memory is freed after all queued work is done.
class FakeDeviceStream final : public DeviceStream {
 public:
  using Work = std::function<void()>;
  using Reach = std::function<void*(void*)>;
  using Allocate = std::function<Buffer(std::size_t)>;

  /// `reach` gives the host's address of memory from `allocate`, if that is another one.
  explicit FakeDeviceStream(Allocate allocate = allocate_host, Reach reach = {})
      : allocate_(std::move(allocate)), reach_(std::move(reach)), thread_([queue = queue_] { queue->loop(); }) {}
  ~FakeDeviceStream() override {
    add([queue = queue_] { queue->ended = true; });
    thread_.join();
  }

  static FakeDeviceStream& from_handle(void* handle) { return *static_cast<FakeDeviceStream*>(handle); }
  /// Queues `work`.
  void add(Work work) { queue_->add(std::move(work)); }
  /// The host's address of memory from allocate().
  void* reach(const void* address) const {
    return reach_ ? reach_(const_cast<void*>(address)) : const_cast<void*>(address);
  }

  void* handle() override { return this; }
  void after_backend() override {}  // the backend is a CPU and runs ops synchronously
  void before_backend() override { queue_->wait(); }
  Buffer allocate(std::size_t bytes) override {
    const auto memory = std::make_shared<Buffer>(allocate_(bytes));
    return Buffer(memory->data(), bytes, [memory, queue = queue_](void*) {
      queue->wait();
      *memory = Buffer();
    });
  }
  void convert(ConstTensor from, Tensor to) override {
    from.data = reach(from.data);
    to.data = reach(to.data);
    add([from, to] {
      for (std::int64_t i = 0; i < from.shape.elements(); ++i) {
        if (to.dtype == DType::bf16) {
          to.as<BFloat16>()[i] = BFloat16(from.as<float>()[i]);
        } else {
          to.as<float>()[i] = static_cast<float>(from.as<BFloat16>()[i]);
        }
      }
    });
  }
  std::unique_ptr<DeviceEvent> mark() override {
    auto mark = std::make_unique<TimedMark>();
    add([time = mark->time] { *time = SteadyClock::now().time_since_epoch().count(); });
    return mark;
  }

 private:
  struct TimedMark final : public DeviceEvent {
    bool reached() const override { return *time != 0; }
    double ms_since(const DeviceEvent& earlier) const override {
      return static_cast<double>(*time - *static_cast<const TimedMark&>(earlier).time) * 1e-6;
    }
    std::shared_ptr<std::atomic<std::int64_t>> time =  // in nanoseconds; 0 until reached
        std::make_shared<std::atomic<std::int64_t>>(0);
  };

  struct Queue {
    void add(Work one) {
      const std::lock_guard lock(mutex);
      work.push_back(std::move(one));
      changed.notify_all();
    }
    void wait() {
      std::unique_lock lock(mutex);
      changed.wait(lock, [this] { return work.empty() && !running; });
    }
    void loop() {
      std::unique_lock lock(mutex);
      while (!ended) {
        changed.wait(lock, [this] { return !work.empty(); });
        Work next = std::move(work.front());
        work.pop_front();
        running = true;
        lock.unlock();
        next();
        next = {};
        lock.lock();
        running = false;
        changed.notify_all();
      }
    }
    std::mutex mutex;  // guards the members below
    std::condition_variable changed;
    std::deque<Work> work;
    bool running = false;
    bool ended = false;  // set on the thread itself
  };

  const Allocate allocate_;
  const Reach reach_;
  const std::shared_ptr<Queue> queue_ = std::make_shared<Queue>();
  std::thread thread_;
};

}  // namespace babelring
