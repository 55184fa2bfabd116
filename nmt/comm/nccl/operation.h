#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/result.h"
#include "nmt/comm/collective.h"
#include "nmt/comm/communicator.h"
#include "nmt/comm/nccl/functions.h"
#include "nmt/core/device_stream.h"
#include "nmt/core/shards.h"

namespace babelring {

/// Memory at the same place of a tensor on every rank, filled with what ranks have of it.
struct NcclPart {
  static constexpr int of_all_ranks = -1;
  char* data = nullptr;
  std::size_t bytes = 0;
  /// The rank that has all `bytes`. of_all_ranks: each rank has `bytes`, one behind the other in the order of ranks.
  int from = of_all_ranks;
};

/// A rank's nonblocking ncclComm_t. Thread-safe: NCCL allows one thread at a time, so each call holds a lock. The
/// destructor aborts operations in flight unless close() was called.
class NcclGroup {
 public:
  explicit NcclGroup(const NcclFunctions& functions) : functions_(functions) {}
  ~NcclGroup() { abort(); }
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  enum class State { busy, ready };
  /// State of the last operation, or the error of the first one that failed. Also busy while another thread is inside
  /// NCCL.
  Result<State> state();

  /// Creates the id that all ranks of a new group pass to join().
  static Result<NcclUniqueId> make_id(const NcclFunctions& functions);
  /// Starts joining the group `id` with the calling thread's current GPU. Complete when state() is ready.
  void join(const NcclUniqueId& id, int rank, int ranks);
  /// Queues an in-place sum over ranks of f32 or bf16 elements on the device. Queued when state() is ready.
  void all_reduce(void* data, std::size_t count, NcclType type, void* stream);

  /// Like all_reduce(), but of the sum each rank gets `count` elements, in the order of ranks.
  void reduce_scatter(void* data, std::size_t count, NcclType type, void* stream);
  /// Queues an in-place all-gather of these parts, the same on all ranks. Queued when state() is ready.
  void all_gather(const std::vector<NcclPart>& parts, void* stream);

  /// Aborts operations on the device and leaves the group. state() is an error afterwards. May be called repeatedly.
  void abort() noexcept;
  /// Leaves the group cleanly. All ranks must call it, with nothing in flight. Aborts if it takes more than 5 s.
  void close();

 private:
  void note(int result, const char* call);
  std::string describe(int result) const;

  const NcclFunctions functions_;
  std::mutex mutex_;  // guards the members below
  NcclComm comm_ = nullptr;
  int rank_ = 0;
  std::string failure_;
};

/// A sum over ranks of f32 in device memory.
struct NcclSum {
  Tensor tensor;
  std::int64_t stripe = 0;  // elements of the sum that each rank gets, in the order of ranks; 0: each rank gets all
  ElementRange own;         // the elements whose sums this rank gets

  /// An all-reduce.
  static NcclSum whole(Tensor tensor) {
    return {.tensor = tensor, .own = {.begin = 0, .end = tensor.shape.elements()}};
  }
};

/// Queues a sum over ranks on a stream in three steps: conversion to the wire type, NCCL's sum, and conversion back.
/// Call begin(), wait until NCCL is no longer busy, then call end().
class NcclDeviceSum {
 public:
  NcclDeviceSum(std::unique_ptr<DeviceStream> stream, GradientWire wire) : stream_(std::move(stream)), wire_(wire) {}

  /// Queues the conversion and the sum after all work submitted to the backend so far. Returns a mark for when the
  /// input is ready.
  std::unique_ptr<DeviceEvent> begin(NcclGroup& group, const NcclSum& sum);
  /// Queues the conversion back. Returns a mark for when the sum is ready.
  std::unique_ptr<DeviceEvent> end(const NcclSum& sum);

  DeviceStream& stream() { return *stream_; }
  GradientWire wire() const { return wire_; }

 private:
  Tensor narrow(const Tensor& tensor);

  std::unique_ptr<DeviceStream> stream_;
  GradientWire wire_;
  Buffer narrow_;  // bf16; shared by all sums, which run one after another on the stream
};

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
