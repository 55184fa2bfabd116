#pragma once

#include <omp.h>

#include <cstdint>

#include "nmt/core/buffer.h"
#include "nmt/ops/cpu/kernel_sets.h"
#include "nmt/ops/cpu/position_table.h"
#include "nmt/ops/cpu/products.h"

namespace babelring::cpu {

/// The backend's resources that kernels use: the instruction set, the number of threads, oneDNN's matmuls, and scratch
/// memory that is kept between ops.
class CpuContext {
 public:
  /// `set` must be available here.
  explicit CpuContext(int threads, KernelSet set = cpu::kernel_set()) : threads_(threads), set_(set) {}

  KernelSet kernel_set() const { return set_; }
  /// Whether bf16 is multiplied in the processor's matrix tiles.
  bool tiles() const { return set_ == KernelSet::amx; }
  Products& products() { return products_; }

  int threads() const { return threads_; }
  /// 1 where `elements` of simple work, 2 to 3 us of one thread, are not worth waking the other threads.
  int threads_for(std::int64_t elements) const { return elements < 16384 ? 1 : threads_; }

  /// One slice of floats for each thread, content undefined; dead at the next call.
  class Slices {
   public:
    Slices(float* base, std::int64_t stride) : base_(base), stride_(stride) {}
    float* of_this_thread() const { return base_ + omp_get_thread_num() * stride_; }

   private:
    float* base_;
    std::int64_t stride_;
  };
  Slices per_thread(std::int64_t floats) {
    const std::int64_t stride = (floats + 63) / 64 * 64;
    return {shared(stride * threads_), stride};
  }
  /// One range of floats, content undefined; dead at the next call.
  float* shared(std::int64_t floats) {
    const auto bytes = static_cast<std::size_t>(floats) * sizeof(float);
    if (buffer_.bytes() < bytes) buffer_ = allocate_host(bytes + bytes / 2);
    return static_cast<float*>(buffer_.data());
  }

  /// Sinusoids of at least `positions` positions, [positions, width]; dead at the next call.
  const float* sinusoids(std::int64_t positions, std::int64_t width) {
    return position_table_.values(positions, width, threads_);
  }

 private:
  int threads_;
  KernelSet set_;
  Products products_;
  Buffer buffer_;
  PositionTable position_table_;
};

}  // namespace babelring::cpu
