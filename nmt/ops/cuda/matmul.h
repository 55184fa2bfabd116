#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "nmt/core/buffer.h"
#include "nmt/ops/cuda/handles.h"
#include "nmt/ops/cuda/matmul_choices.h"
#include "nmt/ops/cuda/matmul_plan.h"
#include "nmt/ops/cuda/matmul_shape.h"
#include "nmt/ops/cuda/work_log.h"
#include "nmt/ops/matmul_report.h"

namespace babelring::cuda {

/// Computes matmuls by cuBLASLt with f32 sums (never TF32). The algorithm is chosen once for each choice_shape() and
/// kept: the library's first proposal, or after tune() the fastest proposal. The library requires a bias in the
/// result's type, so the bias is rounded to it. If the library has no algorithm with the epilogue, it computes the
/// matmul alone and our kernels apply the epilogue; if it has no algorithm at all, a plain kernel of ours computes the
/// matmul. With BABELRING_CUDA_EPILOGUES=forward in the environment, the library is not asked for the three epilogues
/// that only training uses, for comparisons. Not thread-safe.
class Matmul {
 public:
  /// The stream and its log must outlive the object. Throws Failure if BABELRING_CUDA_EPILOGUES has an unknown value.
  explicit Matmul(WorkStream stream);

  /// See Backend::tune_matmuls(). Discards the plans made before.
  Status tune(const std::filesystem::path& file);
  bool tuned() const { return choices_.has_value(); }

  /// Runs a matmul of any shape. The epilogue must be none, bias, relu or bias_relu.
  void run(const MatmulShape& shape, const MatmulOperands& operands);
  /// Runs a matmul with any epilogue. Returns false and does nothing if the library lacks the epilogue or a separate
  /// kernel is faster. `otherwise` runs that separate kernel: after tune(), bias_gradient is used only if it is faster
  /// than the matmul without it plus `otherwise`.
  bool run_fused(const MatmulShape& shape, const MatmulOperands& operands, const std::function<void()>& otherwise = {});
  /// True if run_fused() is expected to succeed: the library has an algorithm, no extent is 0, and the epilogue's
  /// vector and mask are aligned to 16 and 256 bytes.
  bool has(const MatmulShape& shape, const MatmulOperands& operands);

  /// All plans made so far, the oldest first.
  std::vector<MatmulReport> reports() const;

 private:
  struct Entry {
    std::int64_t number;
    MatmulPlan plan;
    std::vector<MatmulAlgorithm> proposed;  // index `chosen` is used
    std::size_t chosen = 0;
    bool decided = false;
    bool worth_it = true;
    float first_ms = 0, chosen_ms = 0;

    bool found() const { return worth_it && !proposed.empty(); }
    const MatmulAlgorithm& algorithm() const { return proposed[chosen]; }
  };

  Entry& entry_for(const MatmulShape& shape);
  void take_stored(Entry& entry) const;
  void decide(Entry& entry, const MatmulShape& actual, const MatmulOperands& operands,
              const std::function<void()>& otherwise);
  void time_proposals(Entry& entry, const MatmulShape& actual, const MatmulOperands& operands);
  bool fills_the_device(const Entry& entry);
  bool beats_the_bare_matmul(const Entry& entry, const MatmulShape& actual, const MatmulOperands& operands,
                             const std::function<void()>& otherwise);
  /// `shape` with vector_alignment set to that of `vector`.
  static MatmulShape aligned_shape(const MatmulShape& shape, const void* vector);
  /// The address of the bias or its gradient for the library; null if it is not aligned.
  const void* vector_for_library(const MatmulShape& shape, const MatmulOperands& operands) const;
  void round_bias(const MatmulShape& shape, const MatmulOperands& operands, const void* vector) const;
  bool recording() const;

  WorkStream stream_;
  bool for_training_;
  BlasHandle handle_;
  Buffer memory_;  // the library's workspace, followed by a bias in bf16
  std::optional<MatmulChoices> choices_;
  std::unordered_map<MatmulShape, Entry, MatmulShapeHash> entries_;  // by choice_shape()
  std::int64_t made_ = 0;
};

}  // namespace babelring::cuda
