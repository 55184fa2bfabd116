#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "nmt/core/dtype.h"

namespace babelring::cpu {

/// C[m, n] = relu(A[m, k] B[k, n] + bias) or C += A B.
/// Element (i, j) of A is at i * a_row + j * a_column, of B likewise; rows of C are `c_row` apart.
struct MatmulShape {
  enum class Varying { none, m, k };
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t a_row = 0, a_column = 0, b_row = 0, b_column = 0, c_row = 0;
  DType operands = DType::f32, result = DType::f32;
  bool bias = false, relu = false, accumulate = false;
  /// One primitive serves every value of this dimension; without, a primitive is made for the exact shape.
  Varying varying = Varying::none;
  bool operator==(const MatmulShape&) const = default;
};

/// Runs matmuls by oneDNN and keeps at most `capacity` primitives, 0.1 to 0.6 MB each; it drops the least recently
/// used first. Turns off oneDNN's own cache of primitives, which would keep the dropped ones. Not thread-safe.
class Matmul {
 public:
  explicit Matmul(std::size_t capacity = 128);
  ~Matmul();
  Matmul(Matmul&&) noexcept;
  Matmul& operator=(Matmul&&) noexcept;

  /// `bias`: n floats or null. Throws Failure (shape, oneDNN's message).
  void run(const MatmulShape& shape, const void* a, const void* b, const float* bias, void* c);

  /// Primitives made so far: for tests and benchmarks.
  std::int64_t created() const;

 private:
  class Cache;
  std::unique_ptr<Cache> cache_;
};

/// "oneDNN 2.6.3, avx512_core_bf16": the library's version and the instructions it uses here.
std::string matmul_description();

}  // namespace babelring::cpu
