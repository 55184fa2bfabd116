#include "nmt/ops/linear.h"

#include <algorithm>

#include "nmt/ops/cpu/cpu_context.h"
#include "nmt/ops/cpu/kernels/avx512_bf16/amx_matmul.h"
#include "nmt/ops/cpu/kernels/avx512_bf16/packed_matmul.h"
#include "nmt/ops/cpu/kernels/vector_math.h"
#include "nmt/ops/cpu/kernels/widened_matmul.h"
#include "nmt/ops/cpu/matmul.h"

namespace babelring::cpu::BABELRING_KERNEL_SET {

namespace {

/// Row `row` of a view; the address only, so that a view of no rows is fine.
const void* row_of(const ConstTensor& view, std::int64_t row) {
  return view.as<char>() + row * view.row_stride * static_cast<std::int64_t>(size_of(view.dtype));
}
void* row_of(const Tensor& view, std::int64_t row) {
  return view.as<char>() + row * view.row_stride * static_cast<std::int64_t>(size_of(view.dtype));
}

/// Cuts a matmul of `rows` rows as linear.h says. `run(first)` runs the shape.m rows from `first` on.
template <class Run>
void for_row_ranges(std::int64_t rows, MatmulShape& shape, Run&& run) {
  constexpr std::int64_t step = 256;
  const std::int64_t whole = shape.operands == DType::bf16 ? rows / step * step : 0;
  shape.m = whole;
  if (whole > 0) run(0);
  shape.m = rows - whole, shape.varying = MatmulShape::Varying::m;
  if (rows > whole) run(whole);
}

/// sums += column sums, in runs of columns and blocks of rows of fixed size: the same for any number of threads.
template <class T>
void add_column_sums(const ConstTensor& matrix, float* sums, int threads) {
  constexpr std::int64_t run = 64, block = 64;
  const std::int64_t rows = matrix.shape[0], width = matrix.shape[1];
#pragma omp parallel for schedule(static) num_threads(threads)
  for (std::int64_t first = 0; first < width; first += run) {
    const std::int64_t count = std::min(run, width - first);
    for (std::int64_t top = 0; top < rows; top += block) {
      float of_block[run] = {};
      for (std::int64_t row = top; row < std::min(rows, top + block); ++row) {
        const T* values = matrix.as<T>() + row * matrix.row_stride + first;
#pragma omp simd
        for (std::int64_t i = 0; i < count; ++i) of_block[i] += load(values[i]);
      }
#pragma omp simd
      for (std::int64_t i = 0; i < count; ++i) sums[first + i] += of_block[i];
    }
  }
}

/// dbias of a backward op: column sums of `of`. Does nothing if it is absent.
void sum_columns(const ConstTensor& matrix, const Tensor& dbias, bool accumulate, const CpuContext& context) {
  if (!dbias) return;
  if (!accumulate) std::fill_n(dbias.as<float>(), dbias.shape.elements(), 0.0f);
  const int threads = context.threads_for(matrix.shape.elements());
  with_float_type(matrix.dtype, [&](auto tag) { add_column_sums<decltype(tag)>(matrix, dbias.as<float>(), threads); });
}

/// The matmul of LinearBackwardWeight by oneDNN.
void multiply_weight(const LinearBackwardWeight& op, CpuContext& context) {
  MatmulShape shape;
  shape.m = op.dweight.shape[0], shape.n = op.dweight.shape[1];
  shape.a_row = 1, shape.a_column = op.dy.row_stride;
  shape.b_row = op.x.row_stride, shape.b_column = 1;
  shape.c_row = shape.n;
  shape.operands = op.dy.dtype, shape.result = DType::f32, shape.accumulate = op.accumulate;
  shape.k = op.dy.shape[0], shape.varying = MatmulShape::Varying::k;
  context.multiply(shape, op.dy.data, op.x.data, nullptr, op.dweight.data);
}

constexpr std::int64_t streamed_bytes = 16 << 20;  // results that no cache would keep until they are read

#if defined(__AVX512BF16__)
constexpr bool has_packed_matmul = true;
#else
constexpr bool has_packed_matmul = false;
#endif

bool on_tiles(DType operands, const CpuContext& context) {
  return operands == DType::bf16 && context.tiles();
}

AmxMatmul matmul_to(const Tensor& result, std::int64_t k) {
  AmxMatmul matmul;
  matmul.m = result.shape[0], matmul.n = result.shape[1], matmul.k = k;
  matmul.c = result.data, matmul.c_stride = result.row_stride, matmul.c_type = result.dtype;
  return matmul;
}

void set_a(AmxMatmul& matmul, const ConstTensor& a) {
  matmul.a = a.as<BFloat16>(), matmul.a_stride = a.row_stride;
}

void set_b(AmxMatmul& matmul, const ConstTensor& b, bool transposed) {
  matmul.b = b.as<BFloat16>(), matmul.b_stride = b.row_stride, matmul.b_transposed = transposed;
}

template <class T>
void apply_gate(const LinearBackwardData& op, int threads) {
  const std::int64_t rows = op.dx.shape[0], width = op.dx.shape[1];
#pragma omp parallel for schedule(static) num_threads(threads)
  for (std::int64_t row = 0; row < rows; ++row) {
    const T* gate = op.gate.as<T>() + row * op.gate.row_stride;
    T* dx = op.dx.as<T>() + row * op.dx.row_stride;
#pragma omp simd
    for (std::int64_t i = 0; i < width; ++i) dx[i] = rounded<T>(load(gate[i]) > 0 ? load(dx[i]) * op.gate_scale : 0.0f);
  }
}

/// dx and its gate.
void multiply_data(const LinearBackwardData& op, CpuContext& context) {
  if (has_packed_matmul && on_tiles(op.dy.dtype, context) && (!op.gate || op.gate.dtype == DType::bf16)) {
    AmxMatmul matmul = matmul_to(op.dx, op.weight.shape[0]);
    set_a(matmul, op.dy);
    set_b(matmul, op.weight, false);
    matmul.accumulate = op.accumulate;
    matmul.gate = op.gate.as<BFloat16>(), matmul.gate_stride = op.gate.row_stride, matmul.factor = op.gate_scale;
    return multiply(matmul, context);
  }
  MatmulShape shape;
  shape.n = op.weight.shape[1], shape.k = op.weight.shape[0];
  shape.a_row = op.dy.row_stride, shape.a_column = 1;
  shape.b_row = shape.n, shape.b_column = 1;
  shape.c_row = op.dx.row_stride;
  shape.operands = op.dy.dtype, shape.result = op.dx.dtype, shape.accumulate = op.accumulate;
  for_row_ranges(op.dy.shape[0], shape, [&](std::int64_t first) {
    context.multiply(shape, row_of(op.dy, first), op.weight.data, nullptr, row_of(op.dx, first));
  });
  if (!op.gate) return;
  const int threads = context.threads_for(op.dx.shape.elements());
  with_float_type(op.dx.dtype, [&](auto tag) { apply_gate<decltype(tag)>(op, threads); });
}

}  // namespace

Buffer pack(const ConstTensor& weight, const CpuContext& context) {
  if constexpr (has_packed_matmul) {
    return on_tiles(weight.dtype, context) ? pack_transposed_b(weight, context.threads())
                                           : pack_panels(weight, context.threads());
  }
  return pack_widened(weight, context.threads());
}

void run(const LinearForward& op, CpuContext& context) {
  if (has_packed_matmul && on_tiles(op.x.dtype, context)) {
    AmxMatmul matmul = matmul_to(op.y, op.x.shape[1]);
    set_a(matmul, op.x);
    set_b(matmul, op.weight, true);
    if (op.packed != nullptr) matmul.packed_b = static_cast<const char*>(op.packed->elements.data());
    matmul.bias = op.bias.as<float>(), matmul.relu = op.activation == Activation::relu;
    matmul.stream = static_cast<std::int64_t>(op.y.bytes()) > streamed_bytes;
    return multiply(matmul, context);
  }
  if (op.packed != nullptr) {
    if (has_packed_matmul) return multiply_by_panels(op, context);
    return multiply_widened(op, context);
  }
  MatmulShape shape;
  shape.n = op.weight.shape[0], shape.k = op.weight.shape[1];
  shape.a_row = op.x.row_stride, shape.a_column = 1;
  shape.b_row = 1, shape.b_column = shape.k;
  shape.c_row = op.y.row_stride;
  shape.operands = op.x.dtype, shape.result = op.y.dtype;
  shape.bias = static_cast<bool>(op.bias), shape.relu = op.activation == Activation::relu;
  for_row_ranges(op.x.shape[0], shape, [&](std::int64_t first) {
    context.multiply(shape, row_of(op.x, first), op.weight.data, op.bias.as<float>(), row_of(op.y, first));
  });
}

void run(const LinearBackwardData& op, CpuContext& context) {
  multiply_data(op, context);
  sum_columns(op.dx, op.dbias, op.accumulate_dbias, context);
}

void run(const LinearBackwardWeight& op, CpuContext& context) {
  if (!op.accumulate && op.dy.shape[0] == 0) std::fill_n(op.dweight.as<float>(), op.dweight.shape.elements(), 0.0f);
  if (has_packed_matmul && on_tiles(op.dy.dtype, context)) {
    AmxMatmul matmul = matmul_to(op.dweight, op.dy.shape[0]);
    set_a(matmul, op.dy);
    set_b(matmul, op.x, false);
    matmul.accumulate = op.accumulate, matmul.stream = !op.accumulate;
    multiply_transposed(matmul, context);
  } else {
    multiply_weight(op, context);
  }
  sum_columns(op.dy, op.dbias, op.accumulate, context);
}

}  // namespace babelring::cpu::BABELRING_KERNEL_SET
