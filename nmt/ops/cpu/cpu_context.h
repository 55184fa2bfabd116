#pragma once

#include <omp.h>

#include <cstdint>
#include <map>
#include <string_view>
#include <utility>

#include "nmt/core/buffer.h"
#include "nmt/core/tensor.h"
#include "nmt/ops/cpu/kernel_sets.h"
#include "nmt/ops/cpu/matmul.h"

namespace babelring::cpu {

/// The sinusoids of EmbeddingForward and RotaryPositions. Keeps a table for each width and divisor between calls. Not
/// thread-safe.
class PositionTables {
 public:
  /// The table, with at least `positions` rows of `width` floats. Valid until the next call. `threads` threads compute
  /// it.
  const float* values(std::int64_t positions, std::int64_t width, std::int64_t divisor, int threads);

 private:
  struct Table {
    Buffer buffer;
    std::int64_t positions = 0;
  };
  std::map<std::pair<std::int64_t, std::int64_t>, Table> tables_;
};

/// Throws Failure unless every index is in [0, bound) or equal to `absent`:
/// embedding_forward: ids[3] is 40000, 0 to 32767 is needed
void check_indices(std::string_view op, std::string_view field, const ConstTensor& indices, std::int64_t bound,
                   std::int32_t absent = 0);

/// The largest index, or 0 if there are none. Throws Failure if an index is negative.
std::int64_t max_index(std::string_view op, std::string_view field, const ConstTensor& indices);

/// The backend's resources that kernels use: the instruction set, the number of threads, oneDNN's matmuls, and scratch
/// memory that is kept between ops.
class CpuContext {
 public:
  /// `set` must be available on this processor.
  explicit CpuContext(int threads, KernelSet set = cpu::kernel_set()) : threads_(threads), set_(set) {}

  KernelSet kernel_set() const { return set_; }
  /// True if bf16 matmuls use the processor's matrix tiles (AMX).
  bool tiles() const { return set_ == KernelSet::amx; }
  /// True if the processor multiplies bytes (AVX512_VNNI).
  bool multiplies_bytes() const { return set_ >= KernelSet::avx512_vnni; }
  /// Runs a matmul by oneDNN, on all threads.
  void multiply(const MatmulShape& shape, const void* a, const void* b, const float* bias, void* c) {
    fixed_blocking_ ? matmul_.run_in_pieces(shape, a, b, bias, c, threads_) : matmul_.run(shape, a, b, bias, c);
  }
  /// From now on the number of threads changes no matmul's result. See Backend::fix_blocking().
  void fix_blocking() { fixed_blocking_ = true; }

  int threads() const { return threads_; }
  /// The number of threads for a simple operation on `elements` elements: 1 if it takes one thread less than 2 to 3 us,
  /// because waking other threads takes longer; otherwise threads().
  int threads_for(std::int64_t elements) const { return elements < 16384 ? 1 : threads_; }

  /// A slice of floats for each thread.
  class Slices {
   public:
    Slices(float* base, std::int64_t stride) : base_(base), stride_(stride) {}
    float* of_this_thread() const { return base_ + omp_get_thread_num() * stride_; }

   private:
    float* base_;
    std::int64_t stride_;
  };
  /// A slice of `floats` floats for each thread, with undefined contents. Valid until the next call of per_thread() or
  /// shared().
  Slices per_thread(std::int64_t floats) {
    const std::int64_t stride = (floats + 63) / 64 * 64;
    return {shared(stride * threads_), stride};
  }
  /// A range of `floats` floats with undefined contents. Valid until the next call of shared() or per_thread().
  float* shared(std::int64_t floats) {
    const auto bytes = static_cast<std::size_t>(floats) * sizeof(float);
    if (buffer_.bytes() < bytes) buffer_ = allocate_host(bytes + bytes / 2);
    return static_cast<float*>(buffer_.data());
  }

  /// The sinusoids of at least `positions` positions, [positions, width]. Valid until the next call.
  const float* sinusoids(std::int64_t positions, std::int64_t width, std::int64_t divisor) {
    return position_tables_.values(positions, width, divisor, threads_);
  }

 private:
  int threads_;
  KernelSet set_;
  Matmul matmul_;
  bool fixed_blocking_ = false;
  Buffer buffer_;
  PositionTables position_tables_;
};

}  // namespace babelring::cpu
