#pragma once

#include <cstddef>
#include <memory>

#include "nmt/core/buffer.h"
#include "nmt/core/tensor.h"

namespace babelring {

/// A queue of work on a GPU beside the one in which its backend computes, for what runs meanwhile. One thread fills it;
/// marks may be asked from any.
class DeviceStream {
 public:
  /// A place in the queue.
  class Mark {
   public:
    virtual ~Mark() = default;
    /// Whether all work before it is done. Never blocks. Throws Failure of work that failed.
    virtual bool reached() const = 0;
    /// The device's time from `earlier`, a mark of the same queue. Both are reached.
    virtual double ms_since(const Mark& earlier) const = 0;
  };

  virtual ~DeviceStream() = default;

  /// What NVIDIA's libraries take for it: a cudaStream_t. Its device becomes the calling thread's current one.
  virtual void* handle() = 0;
  /// What is queued from now on comes after everything that the backend was given so far.
  virtual void after_backend() = 0;
  /// What the backend is given from now on comes after everything that is queued so far. Does not block where the
  /// device can see to it.
  virtual void before_backend() = 0;
  /// Zeroed memory of the device. Throws Failure: bytes needed and free.
  virtual Buffer allocate(std::size_t bytes) = 0;
  /// Queues a copy, element by element; f32 to bf16 rounds to nearest, ties to even. Contiguous, of one size.
  virtual void convert(ConstTensor from, Tensor to) = 0;
  /// Marks what is queued so far.
  virtual std::unique_ptr<Mark> mark() = 0;
};

}  // namespace babelring
