#include "nmt/ops/linear.h"

#include <algorithm>

#include "nmt/ops/cpu/cpu_context.h"
#include "nmt/ops/cpu/kernels/avx512_bf16/amx_matmul.h"
#include "nmt/ops/cpu/kernels/avx512_bf16/packed_matmul.h"
#include "nmt/ops/cpu/kernels/vector_math.h"
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

/// Cuts a product of `rows` rows as linear.h says. `run(first)` runs the shape.m rows from `first` on.
template <class Run>
void for_row_ranges(std::int64_t rows, ProductShape& shape, Run&& run) {
  constexpr std::int64_t step = 256;
  const std::int64_t whole = shape.operands == DType::bf16 ? rows / step * step : 0;
  shape.m = whole;
  if (whole > 0) run(0);
  shape.m = rows - whole, shape.varying = ProductShape::Varying::m;
  if (rows > whole) run(whole);
}

/// dbias += column sums, in runs of columns and blocks of rows of fixed size: the same for any number of threads.
template <class T>
void add_column_sums(const ConstTensor& dy, float* dbias, int threads) {
  constexpr std::int64_t run = 64, block = 64;
  const std::int64_t rows = dy.shape[0], width = dy.shape[1];
#pragma omp parallel for schedule(static) num_threads(threads)
  for (std::int64_t first = 0; first < width; first += run) {
    const std::int64_t count = std::min(run, width - first);
    for (std::int64_t top = 0; top < rows; top += block) {
      float sums[run] = {};
      for (std::int64_t row = top; row < std::min(rows, top + block); ++row) {
        const T* values = dy.as<T>() + row * dy.row_stride + first;
#pragma omp simd
        for (std::int64_t i = 0; i < count; ++i) sums[i] += load(values[i]);
      }
#pragma omp simd
      for (std::int64_t i = 0; i < count; ++i) dbias[first + i] += sums[i];
    }
  }
}

/// The product of LinearBackwardWeight by oneDNN.
void multiply_weight(const LinearBackwardWeight& op, CpuContext& workspace) {
  ProductShape shape;
  shape.m = op.dweight.shape[0], shape.n = op.dweight.shape[1];
  shape.a_row = 1, shape.a_column = op.dy.row_stride;
  shape.b_row = op.x.row_stride, shape.b_column = 1;
  shape.c_row = shape.n;
  shape.operands = op.dy.dtype, shape.result = DType::f32, shape.accumulate = op.accumulate;
  shape.k = op.dy.shape[0], shape.varying = ProductShape::Varying::k;
  workspace.products().run(shape, op.dy.data, op.x.data, nullptr, op.dweight.data);
}

constexpr std::int64_t streamed_bytes = 16 << 20;  // results that no cache would keep until they are read

#if defined(__AVX512BF16__)
constexpr bool has_packed_products = true;
#else
constexpr bool has_packed_products = false;
#endif

bool on_tiles(DType operands, const CpuContext& context) {
  return operands == DType::bf16 && context.tiles();
}

AmxProduct product_to(const Tensor& result, std::int64_t k) {
  AmxProduct product;
  product.m = result.shape[0], product.n = result.shape[1], product.k = k;
  product.c = result.data, product.c_stride = result.row_stride, product.c_type = result.dtype;
  return product;
}

void set_a(AmxProduct& product, const ConstTensor& a) {
  product.a = a.as<BFloat16>(), product.a_stride = a.row_stride;
}

void set_b(AmxProduct& product, const ConstTensor& b, bool transposed) {
  product.b = b.as<BFloat16>(), product.b_stride = b.row_stride, product.b_transposed = transposed;
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

}  // namespace

Buffer pack(const ConstTensor& weight, const CpuContext& context) {
  if constexpr (has_packed_products) {
    return on_tiles(weight.dtype, context) ? pack_transposed_b(weight, context.threads())
                                           : pack_panels(weight, context.threads());
  }
  return {};
}

void run(const LinearForward& op, CpuContext& workspace) {
  if (has_packed_products && on_tiles(op.x.dtype, workspace)) {
    AmxProduct product = product_to(op.y, op.x.shape[1]);
    set_a(product, op.x);
    set_b(product, op.weight, true);
    if (op.packed != nullptr) product.packed_b = static_cast<const char*>(op.packed->elements.data());
    product.bias = op.bias.as<float>(), product.relu = op.activation == Activation::relu;
    product.stream = static_cast<std::int64_t>(op.y.bytes()) > streamed_bytes;
    return multiply(product, workspace);
  }
  if (has_packed_products && op.packed != nullptr) return multiply_by_panels(op, workspace);
  ProductShape shape;
  shape.n = op.weight.shape[0], shape.k = op.weight.shape[1];
  shape.a_row = op.x.row_stride, shape.a_column = 1;
  shape.b_row = 1, shape.b_column = shape.k;
  shape.c_row = op.y.row_stride;
  shape.operands = op.x.dtype, shape.result = op.y.dtype;
  shape.bias = static_cast<bool>(op.bias), shape.relu = op.activation == Activation::relu;
  for_row_ranges(op.x.shape[0], shape, [&](std::int64_t first) {
    workspace.products().run(shape, row_of(op.x, first), op.weight.data, op.bias.as<float>(), row_of(op.y, first));
  });
}

void run(const LinearBackwardData& op, CpuContext& workspace) {
  if (has_packed_products && on_tiles(op.dy.dtype, workspace) && (!op.gate || op.gate.dtype == DType::bf16)) {
    AmxProduct product = product_to(op.dx, op.weight.shape[0]);
    set_a(product, op.dy);
    set_b(product, op.weight, false);
    product.accumulate = op.accumulate;
    product.gate = op.gate.as<BFloat16>(), product.gate_stride = op.gate.row_stride, product.factor = op.gate_scale;
    return multiply(product, workspace);
  }
  ProductShape shape;
  shape.n = op.weight.shape[1], shape.k = op.weight.shape[0];
  shape.a_row = op.dy.row_stride, shape.a_column = 1;
  shape.b_row = shape.n, shape.b_column = 1;
  shape.c_row = op.dx.row_stride;
  shape.operands = op.dy.dtype, shape.result = op.dx.dtype, shape.accumulate = op.accumulate;
  for_row_ranges(op.dy.shape[0], shape, [&](std::int64_t first) {
    workspace.products().run(shape, row_of(op.dy, first), op.weight.data, nullptr, row_of(op.dx, first));
  });
  if (!op.gate) return;
  const int threads = workspace.threads_for(op.dx.shape.elements());
  with_float_type(op.dx.dtype, [&](auto tag) { apply_gate<decltype(tag)>(op, threads); });
}

void run(const LinearBackwardWeight& op, CpuContext& workspace) {
  if (!op.accumulate && op.dy.shape[0] == 0) std::fill_n(op.dweight.as<float>(), op.dweight.shape.elements(), 0.0f);
  if (!op.accumulate && op.dbias) std::fill_n(op.dbias.as<float>(), op.dbias.shape.elements(), 0.0f);
  if (has_packed_products && on_tiles(op.dy.dtype, workspace)) {
    AmxProduct product = product_to(op.dweight, op.dy.shape[0]);
    set_a(product, op.dy);
    set_b(product, op.x, false);
    product.accumulate = op.accumulate, product.stream = !op.accumulate;
    multiply_transposed(product, workspace);
  } else {
    multiply_weight(op, workspace);
  }
  if (!op.dbias) return;
  const int threads = workspace.threads_for(op.dy.shape.elements());
  with_float_type(op.dy.dtype, [&](auto tag) { add_column_sums<decltype(tag)>(op.dy, op.dbias.as<float>(), threads); });
}

}  // namespace babelring::cpu::BABELRING_KERNEL_SET
