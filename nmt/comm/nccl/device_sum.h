#pragma once

#include <memory>

#include "nmt/comm/communicator.h"
#include "nmt/comm/nccl/group.h"
#include "nmt/core/device_stream.h"
#include "nmt/core/shards.h"

namespace babelring {

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

}  // namespace babelring
