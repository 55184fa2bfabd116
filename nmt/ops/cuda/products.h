#pragma once

#include <cstdint>
#include <unordered_map>

#include "nmt/core/buffer.h"
#include "nmt/ops/cuda/handles.h"
#include "nmt/ops/cuda/product_shape.h"

namespace babelring::cuda {

/// Operands of a product, on the device.
struct ProductOperands {
  const void *a = nullptr, *b = nullptr;
  const float* bias = nullptr;  // [n], for the epilogues that have one
  void* c = nullptr;
  float alpha = 1;
  void* relu_mask = nullptr;       // [m, relu_mask_words(n)], which relu_gradient reads
  float* bias_gradient = nullptr;  // [m], overwritten
};

/// Matrix products through cuBLASLt, accumulated in f32 (never TF32). The algorithm is chosen once for a shape and
/// kept. A bias is rounded to the result's type, in which the library takes it. Where the library has no algorithm with
/// the epilogue, it multiplies without and kernels of ours do the rest; where it has none at all, a plain kernel of
/// ours multiplies. With BABELRING_CUDA_EPILOGUES=forward in the environment the three epilogues that only training
/// uses are not asked of it, for comparison.
class Products {
 public:
  /// The stream must outlive the object. Throws Failure if the environment names epilogues that are not known.
  explicit Products(const Stream& stream);

  /// Any shape; epilogues up to bias_relu.
  void run(const ProductShape& shape, const ProductOperands& operands);
  /// Any epilogue. False, and nothing is done, unless the library has it.
  bool run_fused(const ProductShape& shape, const ProductOperands& operands);
  /// Whether the library has an algorithm that is worth it, there is something to compute, and the epilogue's vector
  /// and mask are aligned to 16 bytes.
  bool has(const ProductShape& shape, const ProductOperands& operands);

 private:
  struct Plan {
    MatmulDescription description;
    MatrixLayout a, b, c;
    cublasLtMatmulAlgo_t algorithm{};
    float waves = 0;  // how much of the device the algorithm fills; 1: all of it, once
    bool found = false;
  };
  const Plan& plan_for(const ProductShape& shape);
  void describe(Plan& plan, const ProductShape& shape) const;
  void choose(Plan& plan, const ProductShape& shape) const;
  void multiply(const Plan& plan, const ProductShape& shape, const ProductOperands& operands) const;
  /// Where the library finds the bias, or puts its gradient; null where that is not aligned.
  const void* vector_for_library(const ProductShape& shape, const ProductOperands& operands) const;

  cudaStream_t stream_;
  bool for_training_;
  BlasHandle handle_;
  Buffer memory_;  // for the library's own use, and behind it for a bias in bf16
  std::unordered_map<ProductShape, Plan, ProductShapeHash> plans_;
};

}  // namespace babelring::cuda
