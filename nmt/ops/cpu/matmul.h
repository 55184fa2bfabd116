#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "nmt/core/tensor.h"

namespace babelring::cpu {

/// C[m, n] = relu(A[m, k] B[k, n] + bias), or C += A B. Element (i, j) of A is at i * a_row + j * a_column, of B at
/// i * b_row + j * b_column; rows of C are c_row apart. Strides count elements.
struct MatmulShape {
  enum class Varying { none, m, k };
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t a_row = 0, a_column = 0, b_row = 0, b_column = 0, c_row = 0;
  DType operands = DType::f32, result = DType::f32;
  bool bias = false, relu = false, accumulate = false;
  bool one_thread = false;  // the primitive is made for one thread; set by run_in_pieces()
  /// One primitive serves all values of this extent; oneDNN then takes another kernel, whose result for a row depends
  /// on the number of rows where that is small, and in f32 on the number of threads from k = 1,024 on. `none`: the
  /// primitive is made for the exact shape, and a row's result depends on neither.
  Varying varying = Varying::none;
  bool operator==(const MatmulShape&) const = default;
};

/// Runs matmuls by oneDNN. Keeps up to `capacity` primitives of 0.1 to 0.6 MB each and drops the least recently used
/// first. Disables oneDNN's own cache, which would keep the dropped ones. Not thread-safe.
class Matmul {
 public:
  explicit Matmul(std::size_t capacity = 128);
  ~Matmul();
  Matmul(Matmul&&) noexcept;
  Matmul& operator=(Matmul&&) noexcept;

  /// Runs a matmul. `bias` is [n] or null. Throws Failure with the shape and oneDNN's message.
  void run(const MatmulShape& shape, const void* a, const void* b, const float* bias, void* c);

  /// The same with results that do not depend on the number of threads, unlike run()'s: C is cut into pieces by its
  /// size alone, and one thread computes a piece. C below 1,000 rows and columns is one piece.
  void run_in_pieces(const MatmulShape& shape, const void* a, const void* b, const float* bias, void* c, int threads);

  /// The number of primitives created so far, for tests and benchmarks.
  std::int64_t created() const;

 private:
  class Cache;
  std::unique_ptr<Cache> cache_;
};

/// The library's version and the instruction set that it uses here: "oneDNN 2.6.3, avx512_core_bf16".
std::string matmul_description();
/// "2.6.3" and "avx512_core_bf16".
std::string matmul_library_version();
std::string_view matmul_instruction_set();

}  // namespace babelring::cpu
