#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "nmt/comm/collective.h"
#include "nmt/comm/nccl/group.h"
#include "nmt/core/device_stream.h"

namespace babelring {

/// What a rank's all-reduces by NCCL have in common. They complete in the order in which they were queued.
struct NcclQueue {
  explicit NcclQueue(const NcclFunctions& functions) : group(functions) {}
  NcclGroup group;
  std::atomic<std::int64_t> completed{0};
  std::atomic<std::int64_t> busy_ns{0};  // of the device, from when the elements were there
};

/// What the thread that queues an all-reduce tells the one that watches over it.
class NcclTicket {
 public:
  /// It has been queued on the device, between the marks.
  void queued(std::unique_ptr<DeviceStream::Mark> begin, std::unique_ptr<DeviceStream::Mark> end);
  /// It could not be queued.
  void failed(const std::string& why);

  /// Whether it is done; then `ms` is what the device took.
  bool done(double& ms) const;
  std::string failure() const;

 private:
  mutable std::mutex mutex_;  // guards what follows
  std::unique_ptr<DeviceStream::Mark> begin_, end_;
  std::string failure_;
};

/// An all-reduce that a GPU does, among the communication thread's collectives: it polls whether the device has
/// finished, and reports NCCL's errors. give_up() aborts NCCL.
class NcclAllReduce final : public Collective {
 public:
  /// `number`: how many were queued before it.
  NcclAllReduce(std::shared_ptr<NcclQueue> queue, std::shared_ptr<NcclTicket> ticket, std::int64_t number,
                std::int64_t payload_bytes)
      : queue_(std::move(queue)), ticket_(std::move(ticket)), number_(number), payload_bytes_(payload_bytes) {}

  void begin() override {}
  Progress advance() override;
  std::string name() const override;
  /// 0: the host moves none.
  std::int64_t bytes() const override { return 0; }
  std::string trouble() const override;
  void give_up() noexcept override { queue_->group.abort(); }

 private:
  std::shared_ptr<NcclQueue> queue_;
  std::shared_ptr<NcclTicket> ticket_;
  std::int64_t number_, payload_bytes_;
};

}  // namespace babelring
