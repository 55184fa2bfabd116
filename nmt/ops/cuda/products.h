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
};

/// Matrix products through cuBLASLt, accumulated in f32 (never TF32). The algorithm is chosen once for a shape and
/// kept. A bias goes in the result's type, which is what the library takes. Where it has none with the epilogue, it
/// multiplies without, between kernels of ours; where it has none at all, a plain kernel of ours multiplies.
class Products {
 public:
  /// The stream must outlive the object.
  explicit Products(const Stream& stream);

  void run(const ProductShape& shape, const ProductOperands& operands);

 private:
  struct Plan {
    MatmulDescription description;
    MatrixLayout a, b, c;
    cublasLtMatmulAlgo_t algorithm{};
    bool found = false;
  };
  const Plan& plan_for(const ProductShape& shape, const ProductOperands& operands);
  void describe(Plan& plan, const ProductShape& shape, const ProductOperands& operands) const;
  void choose(Plan& plan, const ProductShape& shape) const;
  void multiply(const Plan& plan, const ProductShape& shape, const ProductOperands& operands) const;
  /// Where the library finds the bias; null where it cannot.
  const void* bias_for_library(const ProductShape& shape, const ProductOperands& operands) const;

  cudaStream_t stream_;
  BlasHandle handle_;
  Buffer memory_;  // for the library's own use, and behind it for a bias in bf16
  std::unordered_map<ProductShape, Plan, ProductShapeHash> plans_;
};

}  // namespace babelring::cuda
