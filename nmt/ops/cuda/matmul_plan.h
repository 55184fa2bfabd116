#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nmt/core/buffer.h"
#include "nmt/ops/cuda/handles.h"
#include "nmt/ops/cuda/matmul_shape.h"

namespace babelring::cuda {

/// Operands of a matmul in device memory. Not owned.
struct MatmulOperands {
  const void *a = nullptr, *b = nullptr;
  const float* bias = nullptr;      // [n], for the epilogues that have one
  const void* bias_copy = nullptr;  // [n], the bias in the result's type, or null
  void* c = nullptr;
  float alpha = 1;
};

/// The arguments of all calls of cuBLASLt. Not owned.
struct MatmulLibrary {
  cublasLtHandle_t handle;
  void* memory;  // the library's workspace, aligned to 256 bytes
  std::size_t memory_bytes;
  cudaStream_t stream;
};

/// An algorithm that the library proposes.
struct MatmulAlgorithm {
  cublasLtMatmulAlgo_t settings{};
  float waves = 0;  // blocks of the launch divided by blocks that the device runs at a time
};

/// The settings as text, in the library's numbers: "algorithm 66, tile 21, stages 36, splits 1, cluster 3".
std::string text_of(const cublasLtMatmulAlgo_t& settings);

/// A matmul described for cuBLASLt. The varying extent may differ from call to call.
class MatmulPlan {
 public:
  MatmulPlan(const MatmulLibrary& library, const MatmulShape& shape);

  /// Up to `count` algorithms that the library proposes, in the order of their expected speed.
  std::vector<MatmulAlgorithm> propose(int count) const;
  /// True if the algorithm, stored by the same version of the library, can compute this matmul; sets its `waves`.
  bool accepts(MatmulAlgorithm& algorithm) const;
  /// Submits the matmul to the stream. `actual` may differ from shape() in the varying extent only. `bias` has the
  /// result's type. Returns the library's status.
  cublasStatus_t multiply(const MatmulAlgorithm& algorithm, const MatmulShape& actual, const MatmulOperands& operands,
                          const void* bias, void* c);

  const MatmulShape& shape() const { return shape_; }

 private:
  void describe_epilogue() const;
  void set_varying_extent(const MatmulShape& actual);

  MatmulLibrary library_;
  MatmulShape shape_;
  std::int64_t described_ = -1;  // the varying extent in the layouts
  MatmulDescription description_;
  MatrixLayout a_, b_, c_;
};

bool has_bias(Epilogue epilogue);

}  // namespace babelring::cuda
