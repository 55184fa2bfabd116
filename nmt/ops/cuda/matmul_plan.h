#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nmt/core/buffer.h"
#include "nmt/ops/cuda/handles.h"
#include "nmt/ops/cuda/matmul_shape.h"

namespace babelring::cuda {

/// Operands of a matmul, on the device.
struct MatmulOperands {
  const void *a = nullptr, *b = nullptr;
  const float* bias = nullptr;      // [n], for the epilogues that have one
  const void* bias_copy = nullptr;  // [n], the same in the result's type; null: there is none
  void* c = nullptr;
  float alpha = 1;
  void* relu_mask = nullptr;       // [m, relu_mask_words(n)], which relu_gradient reads
  float* bias_gradient = nullptr;  // [m], overwritten
};

/// What the library's calls take.
struct MatmulLibrary {
  cublasLtHandle_t handle;
  void* memory;  // 256-byte aligned, for the library's own use
  std::size_t memory_bytes;
  cudaStream_t stream;
};

/// An algorithm that the library proposes.
struct MatmulAlgorithm {
  cublasLtMatmulAlgo_t settings{};
  float waves = 0;  // how much of the device it fills; 1: all of it, once
};

/// The settings in the library's numbers: "algorithm 66, tile 21, stages 36, splits 1, cluster 3".
std::string text_of(const cublasLtMatmulAlgo_t& settings);

/// The description of a matmul for cuBLASLt. Of its varying extent another number may come with each call.
class MatmulPlan {
 public:
  MatmulPlan(const MatmulLibrary& library, const MatmulShape& shape);

  /// The algorithms that the library proposes, the one first that it expects to be fastest; at most `count`.
  std::vector<MatmulAlgorithm> propose(int count) const;
  /// Whether an algorithm from elsewhere, of the same version of the library, can compute this; sets its waves.
  bool accepts(MatmulAlgorithm& algorithm) const;
  /// Gives the matmul to the stream. `actual` differs from the plan's shape in the varying extent at most. `vector`:
  /// the bias, or the place of its gradient. Returns what the library says.
  cublasStatus_t multiply(const MatmulAlgorithm& algorithm, const MatmulShape& actual, const MatmulOperands& operands,
                          const void* vector, void* c);

  const MatmulShape& shape() const { return shape_; }

 private:
  void describe_epilogue() const;
  void set_varying_extent(const MatmulShape& actual);

  MatmulLibrary library_;
  MatmulShape shape_;
  std::int64_t described_ = -1;  // the varying extent that the layouts have now
  MatmulDescription description_;
  MatrixLayout a_, b_, c_;
};

bool has_bias(Epilogue epilogue);
bool has_mask(Epilogue epilogue);
/// A bias or its gradient.
bool has_vector(Epilogue epilogue);

}  // namespace babelring::cuda
