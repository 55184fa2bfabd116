#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "nmt/core/buffer.h"
#include "nmt/ops/backend.h"
#include "nmt/ops/cuda/handles.h"
#include "nmt/ops/cuda/matmul_choices.h"
#include "nmt/ops/cuda/matmul_plan.h"
#include "nmt/ops/cuda/matmul_shape.h"
#include "nmt/ops/cuda/work_log.h"

namespace babelring::cuda {

/// Measures `count` pieces of work with an L2 cache that holds none of their operands. Returns the shortest of up to
/// three runs of each, in milliseconds; a piece that is much slower than another runs less often. `run(i)` submits
/// piece i to the stream, or returns false if it cannot run, which gives an infinite time. Waits for the stream.
/// Returns an empty vector if the device lacks the memory to overwrite the cache.
std::vector<float> time_with_cold_cache(int count, const std::function<bool(int)>& run, cudaStream_t stream);

/// The index of the shortest time. Times that are less than 2 % shorter than the first do not count.
std::size_t shortest(const std::vector<float>& ms);

/// True if `bytes` bytes of device memory can be allocated and some remain.
bool has_device_memory(std::size_t bytes);

/// Computes matmuls by cuBLASLt with f32 sums (never TF32). The algorithm is chosen once for each choice_shape() and
/// kept: the library's first proposal, or after tune() the fastest proposal. The library requires a bias in the
/// result's type, so the bias is rounded to it. If the library has no algorithm with the epilogue, it computes the
/// matmul alone and our kernels apply the epilogue; if it has no algorithm at all, a plain kernel of ours computes the
/// matmul. Not thread-safe.
class Matmul {
 public:
  /// The stream and its log must outlive the object.
  explicit Matmul(WorkStream stream);

  /// See Backend::tune_matmuls(). Discards the plans made before.
  Status tune(const std::filesystem::path& file);
  bool tuned() const { return choices_.has_value(); }

  /// Runs a matmul of any shape.
  void run(const MatmulShape& shape, const MatmulOperands& operands);

  /// All plans made so far, the oldest first.
  std::vector<MatmulReport> reports() const;

 private:
  struct Entry {
    std::int64_t number;
    MatmulPlan plan;
    std::vector<MatmulAlgorithm> proposed;  // index `chosen` is used
    std::size_t chosen = 0;
    bool decided = false;
    float first_ms = 0, chosen_ms = 0;

    bool found() const { return !proposed.empty(); }
    const MatmulAlgorithm& algorithm() const { return proposed[chosen]; }
  };

  Entry& entry_for(const MatmulShape& shape);
  void take_stored(Entry& entry) const;
  /// `bias` is bias_for_library()'s.
  void decide(Entry& entry, const MatmulShape& actual, const MatmulOperands& operands, const void* bias);
  void time_proposals(Entry& entry, const MatmulShape& actual, const MatmulOperands& operands, const void* bias);
  /// Lets the library run a matmul whose extents are not 0. Returns false and does nothing if it has no algorithm.
  bool run_by_library(const MatmulShape& shape, const MatmulOperands& operands);
  /// The address of the bias for the library; null if it is not aligned, or there is none.
  const void* bias_for_library(const MatmulShape& shape, const MatmulOperands& operands) const;
  void round_bias(const MatmulShape& shape, const MatmulOperands& operands, const void* bias) const;
  bool recording() const;

  WorkStream stream_;
  BlasHandle handle_;
  Buffer memory_;  // the library's workspace, followed by a bias in bf16
  std::optional<MatmulChoices> choices_;
  std::unordered_map<MatmulShape, Entry, MatmulShapeHash> entries_;  // by choice_shape()
  std::int64_t made_ = 0;
};

}  // namespace babelring::cuda
