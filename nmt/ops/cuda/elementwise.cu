#include <bit>

#include "nmt/ops/cuda/device_math.cuh"
#include "nmt/ops/cuda/launch.cuh"
#include "nmt/ops/cuda/launch.h"
#include "nmt/ops/cuda/pieces.cuh"
#include "nmt/ops/elementwise.h"

namespace babelring::cuda {
namespace {

constexpr int dropout_rows = 8;  // a warp takes a row, n columns a lane at a time
constexpr int dropout_threads = dropout_rows * warp_lanes;

template <int n, class T>
__global__ void dropout_kernel(const T* x, std::int64_t x_stride, T* y, std::int64_t y_stride, std::int64_t rows,
                               int width, DropoutKey key) {
  await_earlier_kernels();
  const std::int64_t row = row_of_warp<dropout_rows>();
  if (row >= rows) return;
  const DeviceDropoutRow mask(key, row);
  for (int i = first_column<n>(); i < width; i += column_step<n>) {
    const Elements<T, n> piece(x + row * x_stride + i);
    float values[n];
#pragma unroll
    for (int e = 0; e < n; ++e) values[e] = piece[e];
    mask.apply(values, i);
    put_elements(y + row * y_stride + i, Elements<T, n>(values));
  }
}

template <int n, class T>
__global__ void residual_dropout_kernel(const T* residual, const T* branch, T* y, std::int64_t rows, int width,
                                        DropoutKey key) {
  await_earlier_kernels();
  const std::int64_t row = row_of_warp<dropout_rows>();
  if (row >= rows) return;
  const DeviceDropoutRow mask(key, row);
  for (int i = first_column<n>(); i < width; i += column_step<n>) {
    const std::int64_t at = row * width + i;
    const Elements<T, n> piece(residual + at), added(branch + at);
    float values[n];
#pragma unroll
    for (int e = 0; e < n; ++e) values[e] = added[e];
    mask.apply(values, i);
#pragma unroll
    for (int e = 0; e < n; ++e) values[e] += piece[e];
    put_elements(y + at, Elements<T, n>(values));
  }
}

template <bool gelu>
__device__ inline float activated(float z) {
  if constexpr (gelu) return z * (0.5f * erfcf(-0.707106781f * z));
  return z / (1.0f + expf(-z));
}
template <bool gelu>
__device__ inline float activation_slope(float z) {
  if constexpr (gelu) return 0.5f * erfcf(-0.707106781f * z) + z * (0.398942280f * expf(-0.5f * z * z));
  const float s = 1.0f / (1.0f + expf(-z));
  return s + z * s * (1.0f - s);
}

/// Rows from one to the next of which it is `stride` elements.
template <class T>
struct StridedRows {
  T* first;
  std::int64_t stride;
};

/// result = dropout(act(z)), or dropout(act'(z) dy) with `backward`; swish without `gelu`.
template <int n, bool gelu, bool backward, class T>
__global__ void activation_kernel(StridedRows<const T> z, StridedRows<const T> dy, StridedRows<T> result,
                                  std::int64_t rows, int width, DropoutKey key) {
  await_earlier_kernels();
  const std::int64_t row = row_of_warp<dropout_rows>();
  if (row >= rows) return;
  const DeviceDropoutRow mask(key, row);
  for (int i = first_column<n>(); i < width; i += column_step<n>) {
    const Elements<T, n> piece(z.first + row * z.stride + i);
    float values[n];
    if constexpr (backward) {
      const Elements<T, n> gradient(dy.first + row * dy.stride + i);
#pragma unroll
      for (int e = 0; e < n; ++e) values[e] = activation_slope<gelu>(piece[e]) * gradient[e];
    } else {
#pragma unroll
      for (int e = 0; e < n; ++e) values[e] = activated<gelu>(piece[e]);
    }
    mask.apply(values, i);
    put_elements(result.first + row * result.stride + i, Elements<T, n>(values));
  }
}

/// The operands of swiglu. Forward reads z and up, and writes `first`; backward reads dy, too, and writes dz to `first`
/// and dup to `second`.
template <class T>
struct GatedOperands {
  StridedRows<const T> z, up, dy;
  StridedRows<T> first, second;
};
template <int n, bool backward, class T>
__global__ void swiglu_kernel(GatedOperands<T> operands, std::int64_t rows, int width, DropoutKey key) {
  await_earlier_kernels();
  const std::int64_t row = row_of_warp<dropout_rows>();
  if (row >= rows) return;
  const DeviceDropoutRow mask(key, row);
  const auto at = [&](const auto& matrix, int i) { return matrix.first + row * matrix.stride + i; };
  for (int i = first_column<n>(); i < width; i += column_step<n>) {
    const Elements<T, n> gate(at(operands.z, i)), up(at(operands.up, i));
    float values[n], to_up[n];
    if constexpr (backward) {
      const Elements<T, n> dy(at(operands.dy, i));
#pragma unroll
      for (int e = 0; e < n; ++e) {
        values[e] = activation_slope<false>(gate[e]) * up[e] * dy[e];
        to_up[e] = activated<false>(gate[e]) * dy[e];
      }
      mask.apply(to_up, i);
      put_elements(at(operands.second, i), Elements<T, n>(to_up));
    } else {
#pragma unroll
      for (int e = 0; e < n; ++e) values[e] = activated<false>(gate[e]) * up[e];
    }
    mask.apply(values, i);
    put_elements(at(operands.first, i), Elements<T, n>(values));
  }
}

template <class T>
StridedRows<const T> rows_of(const ConstTensor& x) {
  return {x.as<T>(), x.row_stride};
}
template <class T>
StridedRows<T> rows_of(const Tensor& x) {
  return {x.as<T>(), x.row_stride};
}

template <bool backward, class Op>
void run_swiglu(const Op& op, ConstTensor dy, Tensor first, Tensor second, CudaContext& context) {
  with_device_type(op.z.dtype, [&](auto tag) {
    using T = decltype(tag);
    const std::int64_t rows = op.z.shape[0];
    const int width = static_cast<int>(op.z.shape[1]);
    const GatedOperands<T> operands{.z = rows_of<T>(op.z),
                                    .up = rows_of<T>(op.up),
                                    .dy = rows_of<T>(dy),
                                    .first = rows_of<T>(first),
                                    .second = rows_of<T>(second)};
    const auto extents = {static_cast<std::int64_t>(width),
                          op.z.row_stride,
                          op.up.row_stride,
                          dy.row_stride,
                          first.row_stride,
                          second.row_stride};
    with_pieces<T>(extents, {op.z.data, op.up.data, dy.data, first.data, second.data}, [&](auto n) {
      launch(op.name, {row_blocks<dropout_rows>(rows), dropout_threads, context.stream()},
             swiglu_kernel<n, backward, T>, operands, rows, width, op.key);
    });
  });
}

template <bool backward, class Op>
void run_activation(const Op& op, ConstTensor dy, Tensor result, CudaContext& context) {
  with_device_type(op.z.dtype, [&](auto tag) {
    using T = decltype(tag);
    const std::int64_t rows = op.z.shape[0];
    const int width = static_cast<int>(op.z.shape[1]);
    with_pieces<T>({width, op.z.row_stride, dy.row_stride, result.row_stride}, {op.z.data, dy.data, result.data},
                   [&](auto n) {
                     const auto start = [&](auto* kernel) {
                       launch(op.name, {row_blocks<dropout_rows>(rows), dropout_threads, context.stream()}, kernel,
                              StridedRows<const T>{op.z.template as<T>(), op.z.row_stride},
                              StridedRows<const T>{dy.as<T>(), dy.row_stride},
                              StridedRows<T>{result.as<T>(), result.row_stride}, rows, width, op.key);
                     };
                     op.activation == Activation::gelu ? start(activation_kernel<n, true, backward, T>)
                                                       : start(activation_kernel<n, false, backward, T>);
                   });
  });
}

}  // namespace

void run(const ActivationForward& op, CudaContext& context) {
  if (op.z.shape.elements() == 0) return;
  if (op.activation == Activation::swiglu) return run_swiglu<false>(op, op.z, op.y, op.y, context);
  run_activation<false>(op, op.z, op.y, context);
}

void run(const ActivationBackward& op, CudaContext& context) {
  if (op.z.shape.elements() == 0) return;
  if (op.activation == Activation::swiglu) return run_swiglu<true>(op, op.dy, op.dz, op.dup, context);
  run_activation<true>(op, op.dy, op.dz, context);
}

void run(const Dropout& op, CudaContext& context) {
  const std::int64_t rows = op.x.shape[0];
  if (op.x.shape.elements() == 0) return;
  with_device_type(op.x.dtype, [&](auto tag) {
    using T = decltype(tag);
    const int width = static_cast<int>(op.x.shape[1]);
    with_pieces<T>({width, op.x.row_stride, op.y.row_stride}, {op.x.data, op.y.data}, [&](auto n) {
      launch(op.name, {row_blocks<dropout_rows>(rows), dropout_threads, context.stream()}, dropout_kernel<n, T>,
             op.x.as<T>(), op.x.row_stride, op.y.as<T>(), op.y.row_stride, rows, width, op.key);
    });
  });
}

void run(const ResidualDropout& op, CudaContext& context) {
  const std::int64_t rows = op.y.shape[0];
  if (op.y.shape.elements() == 0) return;
  with_device_type(op.y.dtype, [&](auto tag) {
    using T = decltype(tag);
    const int width = static_cast<int>(op.y.shape[1]);
    with_pieces<T>({width}, {op.residual.data, op.branch.data, op.y.data}, [&](auto n) {
      launch(op.name, {row_blocks<dropout_rows>(rows), dropout_threads, context.stream()},
             residual_dropout_kernel<n, T>, op.residual.as<T>(), op.branch.as<T>(), op.y.as<T>(), rows, width, op.key);
    });
  });
}

namespace {

template <class From, class To>
__global__ void cast_kernel(const From* x, To* y, std::int64_t count) {
  await_earlier_kernels();
  for (std::int64_t i = first_element(); i < count; i += element_step()) y[i] = narrow<To>(widen(x[i]));
}

template <class T>
__global__ void fill_kernel(T* y, float value, std::int64_t count) {
  await_earlier_kernels();
  for (std::int64_t i = first_element(); i < count; i += element_step()) y[i] = narrow<T>(value);
}

/// `pieces` of n elements.
template <int n, class T>
__global__ void add_kernel(const T* x, T* y, std::int64_t pieces) {
  await_earlier_kernels();
  for (std::int64_t i = first_element(); i < pieces; i += element_step()) {
    auto piece = piece_at<n>(y + i * n);
    const auto added = piece_at<n>(x + i * n);
#pragma unroll
    for (int e = 0; e < n; ++e) piece.of[e] = narrow<T>(widen(added.of[e]) + widen(piece.of[e]));
    put_piece(y + i * n, piece);
  }
}

}  // namespace

void cast(ConstTensor x, Tensor y, WorkStream stream) {
  const std::int64_t count = x.shape.elements();
  if (count == 0) return;
  with_device_type(x.dtype, [&](auto from) {
    with_device_type(y.dtype, [&](auto to) {
      using From = decltype(from);
      using To = decltype(to);
      launch(Cast::name, {elementwise_blocks(count), elementwise_threads, stream}, cast_kernel<From, To>, x.as<From>(),
             y.as<To>(), count);
    });
  });
}

void run(const Cast& op, CudaContext& context) {
  cast(op.x, op.y, context.stream());
}

void run(const Fill& op, CudaContext& context) {
  const std::int64_t count = op.y.shape.elements();
  if (count == 0) return;
  if (std::bit_cast<unsigned>(op.value) == 0) {
    if (WorkLog* log = context.stream().log()) {
      log->add(op.y.data);
      return log->add(op.y.bytes());
    }
    return require(cudaMemsetAsync(op.y.data, 0, op.y.bytes(), context.stream().handle()), op.name);
  }
  with_device_type(op.y.dtype, [&](auto tag) {
    using T = decltype(tag);
    launch(op.name, {elementwise_blocks(count), elementwise_threads, context.stream()}, fill_kernel<T>, op.y.as<T>(),
           op.value, count);
  });
}

void run(const Add& op, CudaContext& context) {
  const std::int64_t count = op.y.shape.elements();
  if (count == 0) return;
  with_device_type(op.y.dtype, [&](auto tag) {
    using T = decltype(tag);
    with_pieces<T>({count}, {op.x.data, op.y.data}, [&](auto n) {
      launch(op.name, {elementwise_blocks(count / n), elementwise_threads, context.stream()}, add_kernel<n, T>,
             op.x.as<T>(), op.y.as<T>(), count / n);
    });
  });
}

}  // namespace babelring::cuda
