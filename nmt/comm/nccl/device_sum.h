#pragma once

#include <memory>

#include "nmt/comm/communicator.h"
#include "nmt/comm/nccl/group.h"
#include "nmt/core/device_stream.h"

namespace babelring {

/// Queues a sum over ranks on a stream: to the type that travels, NCCL's all-reduce, and back. In between NCCL has to
/// be asked until it is no longer busy.
class NcclDeviceSum {
 public:
  NcclDeviceSum(std::unique_ptr<DeviceStream> stream, GradientWire wire) : stream_(std::move(stream)), wire_(wire) {}

  /// Behind what the backend was given so far. Returns the mark where the elements are there.
  std::unique_ptr<DeviceStream::Mark> begin(NcclGroup& group, Tensor tensor);
  /// Returns the mark where the sum is there.
  std::unique_ptr<DeviceStream::Mark> end(Tensor tensor);

  DeviceStream& stream() { return *stream_; }
  GradientWire wire() const { return wire_; }

 private:
  Tensor narrow(const Tensor& tensor);

  std::unique_ptr<DeviceStream> stream_;
  GradientWire wire_;
  Buffer narrow_;  // bf16; one for all, for they follow one another on the stream
};

}  // namespace babelring
