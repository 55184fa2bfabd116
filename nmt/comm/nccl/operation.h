#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "nmt/comm/collective.h"
#include "nmt/comm/nccl/group.h"
#include "nmt/core/device_clock.h"
#include "nmt/core/device_stream.h"

namespace babelring {

/// State shared by a rank's NCCL operations. They complete in the order in which they were queued.
struct NcclQueue {
  explicit NcclQueue(const NcclFunctions& functions) : group(functions) {}
  NcclGroup group;
  std::atomic<std::int64_t> completed{0};
  std::atomic<std::int64_t> busy_ns{0};  // device time of operations, measured from when their input was ready
};

/// Passes the outcome of queuing an operation from the main thread to the communication thread. Thread-safe.
class NcclTicket {
 public:
  /// The operation was queued on the device, between the two marks.
  void queued(std::unique_ptr<DeviceEvent> begin, std::unique_ptr<DeviceEvent> end);
  /// The operation could not be queued.
  void failed(const std::string& error);

  /// True if the device has finished it; sets `ms` to the device time.
  bool done(double& ms) const;
  /// When the device ran it. It must have finished.
  Collective::Times times(const DeviceClock& clock) const;
  /// The error passed to failed().
  Status status() const;

 private:
  mutable std::mutex mutex_;  // guards the members below
  std::unique_ptr<DeviceEvent> begin_, end_;
  Status status_;
};

/// A collective between GPUs, tracked by the communication thread. Polls the device for completion and
/// reports NCCL's errors. abort() aborts NCCL.
class NcclOperation final : public Collective {
 public:
  struct Kind {
    std::string name;                // "all-reduce"
    std::int64_t bytes = 0;          // of its tensor
    std::int64_t payload_bytes = 0;  // see Collective
  };
  /// `number` is the number of operations queued before this one. `clock` is null unless spans are recorded.
  NcclOperation(std::shared_ptr<NcclQueue> queue, std::shared_ptr<NcclTicket> ticket, std::int64_t number, Kind kind,
                std::shared_ptr<const DeviceClock> clock)
      : queue_(std::move(queue)),
        ticket_(std::move(ticket)),
        clock_(std::move(clock)),
        number_(number),
        kind_(std::move(kind)) {}

  void begin() override {}
  Progress advance() override;
  std::string name() const override;
  /// 0, because the host sends no data.
  std::int64_t bytes() const override { return 0; }
  std::int64_t payload_bytes() const override { return kind_.payload_bytes; }
  std::optional<Times> measured_times() const override;
  Status status() const override;
  void abort() noexcept override { queue_->group.abort(); }

 private:
  std::shared_ptr<NcclQueue> queue_;
  std::shared_ptr<NcclTicket> ticket_;
  std::shared_ptr<const DeviceClock> clock_;
  std::int64_t number_;
  Kind kind_;
};

}  // namespace babelring
