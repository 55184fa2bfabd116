#pragma once

#include <cstdint>

#include "nmt/core/buffer.h"
#include "nmt/core/tensor.h"
#include "nmt/ops/cpu/cpu_context.h"

namespace babelring::cpu::BABELRING_KERNEL_SET {

/// C = A B or C += A B on the matrix tiles: bf16 operands, f32 sums in an order that depends on k alone, f32 or bf16
/// result. On the way to it: v = sum + bias, relu(v), and with `gate` v times `factor` where gate is positive, else 0.
/// Owns nothing. Strides in elements; rows of C must not overlap A, B or the gate.
struct AmxMatmul {
  std::int64_t m = 0, n = 0, k = 0;
  const BFloat16* a = nullptr;  // element (i, p) at a[i * a_stride + p]; multiply_transposed(): a[p * a_stride + i]
  std::int64_t a_stride = 0;
  const BFloat16* b = nullptr;  // element (p, j) at b[p * b_stride + j]; transposed: b[j * b_stride + p]
  std::int64_t b_stride = 0;
  bool b_transposed = false;
  const char* packed_b = nullptr;  // B as pack_transposed_b() leaves it, read instead; null: packed on the way
  void* c = nullptr;               // element (i, j) at c[i * c_stride + j]
  std::int64_t c_stride = 0;
  DType c_type = DType::bf16;
  bool accumulate = false;
  bool stream = false;          // c is not read again soon: write it past the caches
  const float* bias = nullptr;  // [n] or null
  bool relu = false;
  const BFloat16* gate = nullptr;  // [m, n] with rows gate_stride apart, or null
  std::int64_t gate_stride = 0;
  float factor = 1;
};

/// All panels of the transpose of a contiguous bf16 [n, k], each over the whole of k (amx.h), one after another.
Buffer pack_transposed_b(const ConstTensor& b, int threads);

/// Needs context.tiles(). The result does not depend on the number of threads.
void multiply(const AmxMatmul& matmul, CpuContext& context);

/// The same with A transposed, B not, and an f32 result without bias, ReLU or gate: weight gradients, where k counts
/// rows of a batch.
void multiply_transposed(const AmxMatmul& matmul, CpuContext& context);

}  // namespace babelring::cpu::BABELRING_KERNEL_SET
