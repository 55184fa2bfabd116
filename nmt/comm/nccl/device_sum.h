#pragma once

#include <memory>

#include "nmt/comm/communicator.h"
#include "nmt/comm/nccl/group.h"
#include "nmt/core/device_stream.h"

namespace babelring {

/// Queues a sum over ranks on a stream in three steps: conversion to the wire type, NCCL's all-reduce, and conversion
/// back. Call begin(), wait until NCCL is no longer busy, then call end().
class NcclDeviceSum {
 public:
  NcclDeviceSum(std::unique_ptr<DeviceStream> stream, GradientWire wire) : stream_(std::move(stream)), wire_(wire) {}

  /// Queues the conversion and the all-reduce after all work submitted to the backend so far. Returns a mark for when
  /// the input is ready.
  std::unique_ptr<DeviceEvent> begin(NcclGroup& group, Tensor tensor);
  /// Queues the conversion back. Returns a mark for when the sum is ready.
  std::unique_ptr<DeviceEvent> end(Tensor tensor);

  DeviceStream& stream() { return *stream_; }
  GradientWire wire() const { return wire_; }

 private:
  Tensor narrow(const Tensor& tensor);

  std::unique_ptr<DeviceStream> stream_;
  GradientWire wire_;
  Buffer narrow_;  // bf16; shared by all sums, which run one after another on the stream
};

}  // namespace babelring
