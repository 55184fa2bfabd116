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

/// Matrix matmuls through cuBLASLt, accumulated in f32 (never TF32). The algorithm is chosen once for a choice_shape()
/// and kept: the library's first proposal, or after tune() the fastest of its proposals. A bias is rounded to the
/// result's type, in which the library takes it. Where the library has no algorithm with the epilogue, it multiplies
/// without and kernels of ours do the rest; where it has none at all, a plain kernel of ours multiplies. With
/// BABELRING_CUDA_EPILOGUES=forward in the environment the three epilogues that only training uses are not asked of it,
/// for comparison.
class Matmul {
 public:
  /// The stream and its log must outlive the object. Throws Failure if the environment names epilogues that are not
  /// known.
  explicit Matmul(WorkStream stream);

  /// See Backend::tune_matmuls(). Plans that were made before are forgotten.
  std::string tune(const std::filesystem::path& file);
  bool tuned() const { return choices_.has_value(); }

  /// Any shape; epilogues up to bias_relu.
  void run(const MatmulShape& shape, const MatmulOperands& operands);
  /// Any epilogue. False, and nothing is done, unless the library has it and it is worth it. `otherwise` does what is
  /// to be done besides the bare matmul where it is not: after tune() bias_gradient is taken if it is faster than
  /// both.
  bool run_fused(const MatmulShape& shape, const MatmulOperands& operands, const std::function<void()>& otherwise = {});
  /// Whether the library has an algorithm that is worth it, as far as can be known before operands have come, there is
  /// something to compute, and the epilogue's vector and mask are aligned, to 16 and 256 bytes.
  bool has(const MatmulShape& shape, const MatmulOperands& operands);

  /// Every plan made so far, in the order of their making.
  std::vector<MatmulReport> reports() const;

 private:
  struct Entry {
    std::int64_t number;
    MatmulPlan plan;
    std::vector<MatmulAlgorithm> proposed;  // of which `chosen` is used
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
  /// The shape with the alignment of its vector.
  static MatmulShape aligned_shape(const MatmulShape& shape, const void* vector);
  /// Where the library finds the bias, or puts its gradient; null where that is not aligned.
  const void* vector_for_library(const MatmulShape& shape, const MatmulOperands& operands) const;
  void round_bias(const MatmulShape& shape, const MatmulOperands& operands, const void* vector) const;
  bool recording() const;

  WorkStream stream_;
  bool for_training_;
  BlasHandle handle_;
  Buffer memory_;  // for the library's own use, and behind it for a bias in bf16
  std::optional<MatmulChoices> choices_;
  std::unordered_map<MatmulShape, Entry, MatmulShapeHash> entries_;  // by choice_shape()
  std::int64_t made_ = 0;
};

}  // namespace babelring::cuda
