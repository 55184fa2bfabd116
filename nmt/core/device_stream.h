#pragma once

#include <cstddef>
#include <memory>

#include "nmt/core/buffer.h"
#include "nmt/core/tensor.h"

namespace babelring {

/// A stream of work on a GPU that runs beside its backend's own. One thread fills it; marks may be queried from any.
class DeviceStream {
 public:
  /// A place in the stream.
  class Mark {
   public:
    virtual ~Mark() = default;
    /// Whether all work before it is done. Never blocks. Throws Failure if that work failed.
    virtual bool reached() const = 0;
    /// Device time since `earlier`, a mark of the same stream. Both must have been reached.
    virtual double ms_since(const Mark& earlier) const = 0;
  };

  virtual ~DeviceStream() = default;

  /// The cudaStream_t, for NVIDIA's libraries. Makes its device the calling thread's current one.
  virtual void* handle() = 0;
  /// Work queued from now on runs after everything given to the backend so far.
  virtual void after_backend() = 0;
  /// Work given to the backend from now on runs after everything queued here so far. Does not block the host where the
  /// device can order the two itself.
  virtual void before_backend() = 0;
  /// Zeroed device memory. Throws Failure (bytes needed and free) when there is none.
  virtual Buffer allocate(std::size_t bytes) = 0;
  /// Queues a copy, element by element; f32 to bf16 rounds to nearest, ties to even. Contiguous, of one size.
  virtual void convert(ConstTensor from, Tensor to) = 0;
  /// A mark behind everything queued so far.
  virtual std::unique_ptr<Mark> mark() = 0;
};

}  // namespace babelring
