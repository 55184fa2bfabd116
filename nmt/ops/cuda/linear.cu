#include "nmt/ops/linear.h"

#include <iterator>

#include "nmt/ops/cuda/device_math.cuh"
#include "nmt/ops/cuda/kernels.h"
#include "nmt/ops/cuda/launch.cuh"
#include "nmt/ops/cuda/launch.h"
#include "nmt/ops/cuda/pieces.cuh"
#include "nmt/ops/elementwise.h"

namespace babelring::cuda {

namespace {

constexpr int tile = 16;

/// One element of C a thread, operands by tiles of 16 x 16. For shapes that the library has nothing for.
template <class T, class C>
__global__ void plain_matmul_kernel(MatmulShape shape, const T* a, const T* b, C* c, float alpha) {
  __shared__ float a_tile[tile][tile + 1], b_tile[tile][tile + 1];
  const std::int64_t batch = blockIdx.z;
  a += batch * shape.a_batch, b += batch * shape.b_batch, c += batch * shape.c_batch;
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * tile + threadIdx.y;
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.y) * tile + threadIdx.x;
  float sum = 0;
  for (std::int64_t first = 0; first < shape.k; first += tile) {
    const std::int64_t of_a = first + threadIdx.x, of_b = first + threadIdx.y;
    const bool in_a = row < shape.m && of_a < shape.k, in_b = column < shape.n && of_b < shape.k;
    a_tile[threadIdx.y][threadIdx.x] = in_a ? widen(a[row * shape.a_row + of_a * shape.a_column]) : 0.0f;
    b_tile[threadIdx.y][threadIdx.x] = in_b ? widen(b[of_b * shape.b_row + column * shape.b_column]) : 0.0f;
    __syncthreads();
    for (int l = 0; l < tile; ++l) sum += a_tile[threadIdx.y][l] * b_tile[l][threadIdx.x];
    __syncthreads();
  }
  if (row >= shape.m || column >= shape.n) return;
  C& to = c[row * shape.c_row + column];
  to = narrow<C>(alpha * sum + (shape.accumulate ? widen(to) : 0.0f));
}

/// One block a row.
template <class T>
__global__ void bias_kernel(T* y, std::int64_t stride, int width, const float* bias) {
  T* row = y + blockIdx.x * stride;
  for (int i = threadIdx.x; i < width; i += blockDim.x) row[i] = narrow<T>(bias[i]);
}

/// One block a row.
template <class T>
__global__ void relu_kernel(T* y, std::int64_t stride, int width) {
  T* row = y + blockIdx.x * stride;
  for (int i = threadIdx.x; i < width; i += blockDim.x) {
    if (widen(row[i]) < 0) row[i] = narrow<T>(0);
  }
}

/// dx = 0 where the gate is not positive. One block a row, n columns a thread at a time.
template <int n, class T>
__global__ void gate_kernel(T* dx, std::int64_t stride, const T* gate, std::int64_t gate_stride, int width) {
  const std::int64_t row = blockIdx.x;
  for (int i = threadIdx.x * n; i < width; i += blockDim.x * n) {
    auto piece = piece_at<n>(dx + row * stride + i);
    const auto gates = piece_at<n>(gate + row * gate_stride + i);
#pragma unroll
    for (int e = 0; e < n; ++e) {
      if (!(widen(gates.of[e]) > 0)) piece.of[e] = narrow<T>(0);
    }
    put_piece(dx + row * stride + i, piece);
  }
}

/// Sums over sum_block_rows rows, one after another; n columns a thread.
template <int n, class T>
__global__ void column_sums_kernel(const T* dy, std::int64_t stride, std::int64_t rows, int width, float* partial) {
  const int column = static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x) * n;
  if (column >= width) return;
  const std::int64_t first = blockIdx.x * sum_block_rows;
  const std::int64_t end = first + sum_block_rows < rows ? first + sum_block_rows : rows;
  float sums[n] = {};
#pragma unroll 8
  for (std::int64_t row = first; row < end; ++row) {
    const auto piece = piece_at<n>(dy + row * stride + column);
#pragma unroll
    for (int e = 0; e < n; ++e) sums[e] += widen(piece.of[e]);
  }
  float* to = partial + static_cast<std::int64_t>(blockIdx.x) * width + column;
#pragma unroll
  for (int e = 0; e < n; ++e) to[e] = sums[e];
}

constexpr int sum_lanes = 16;  // threads that share a column's blocks

struct SumPlaces {
  float *first, *second;
};

/// 32 columns a block, a sum of `count` for each blockIdx.y. A thread adds every 16th block of a column, then one adds
/// the 16 sums.
__global__ void add_blocks_kernel(const float* partial, std::int64_t blocks, SumPlaces sums, int count,
                                  bool accumulate) {
  __shared__ float of_lanes[sum_lanes][warp_lanes];
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.y) * count;
  const int i = blockIdx.x * warp_lanes + threadIdx.x;
  partial += blockIdx.y * count;
  float* sum = blockIdx.y == 0 ? sums.first : sums.second;
  float total = 0;
  if (i < count) {
    for (std::int64_t b = threadIdx.y; b < blocks; b += sum_lanes) total += partial[b * stride + i];
  }
  of_lanes[threadIdx.y][threadIdx.x] = total;
  __syncthreads();
  if (threadIdx.y > 0 || i >= count) return;
  total = accumulate ? sum[i] : 0.0f;
  for (int lane = 0; lane < sum_lanes; ++lane) total += of_lanes[lane][threadIdx.x];
  sum[i] = total;
}

void add_column_sums(const ConstTensor& dy, const Tensor& sums, bool accumulate, CudaContext& context) {
  const std::int64_t rows = dy.shape[0], width = dy.shape[1], blocks = sum_blocks(rows);
  if (width == 0) return;
  const Arena::Scope scope(context.scratch());
  auto* partial = context.scratch().make(Shape{blocks, width}, DType::f32).as<float>();
  if (blocks > 0) {
    with_device_type(dy.dtype, [&](auto tag) {
      using T = decltype(tag);
      with_pieces<T>({width, dy.row_stride}, {dy.data}, [&](auto n) {
        constexpr int threads = 64, columns = threads * n;
        const dim3 grid(static_cast<unsigned>(blocks), static_cast<unsigned>((width + columns - 1) / columns));
        launch("column sums", {grid, threads, context.stream()}, column_sums_kernel<n, T>, dy.as<T>(), dy.row_stride,
               rows, static_cast<int>(width), partial);
      });
    });
  }
  launch_add_blocks(partial, blocks, {sums}, accumulate, context.stream());
}

/// The bias in the result's type; null: there is none.
const void* bias_copy(const LinearForward& op) {
  return op.bias_copy.dtype == op.y.dtype ? op.bias_copy.data : nullptr;
}

/// The matmul with the bias gradient on its way, if the library has that.
bool multiply_and_sum(const LinearBackwardWeight& op, MatmulShape shape, CudaContext& context) {
  shape.epilogue = Epilogue::bias_gradient;
  const Arena::Scope scope(context.scratch());
  const bool in_place = !op.accumulate && alignment_of(op.dbias.data, 0, 0) == 16;
  const Tensor sums = in_place ? op.dbias : context.scratch().make(op.dbias.shape, DType::f32);
  const MatmulOperands operands{
      .a = op.dy.data, .b = op.x.data, .c = op.dweight.data, .bias_gradient = sums.as<float>()};
  const auto sum_apart = [&] { add_column_sums(op.dy, sums, false, context); };
  if (!context.matmul().run_fused(shape, operands, sum_apart)) return false;
  if (!in_place) launch_add_blocks(sums.as<float>(), 1, {op.dbias}, op.accumulate, context.stream());
  return true;
}

}  // namespace

void launch_plain_matmul(const MatmulShape& shape, const MatmulOperands& operands, WorkStream stream) {
  const dim3 grid(static_cast<unsigned>((shape.m + tile - 1) / tile),
                  static_cast<unsigned>((shape.n + tile - 1) / tile));
  constexpr std::int64_t max_at_once = 65535;
  with_device_type(shape.type, [&](auto of_operands) {
    with_device_type(shape.c_type, [&](auto of_result) {
      using T = decltype(of_operands);
      using C = decltype(of_result);
      for (std::int64_t first = 0; first < shape.batch; first += max_at_once) {
        const std::int64_t batches = shape.batch - first < max_at_once ? shape.batch - first : max_at_once;
        const LaunchPlace place{dim3(grid.x, grid.y, static_cast<unsigned>(batches)), dim3(tile, tile), stream};
        launch("a plain matmul", place, plain_matmul_kernel<T, C>, shape,
               static_cast<const T*>(operands.a) + first * shape.a_batch,
               static_cast<const T*>(operands.b) + first * shape.b_batch,
               static_cast<C*>(operands.c) + first * shape.c_batch, operands.alpha);
      }
    });
  });
}

void launch_bias(const MatmulShape& shape, const MatmulOperands& operands, WorkStream stream) {
  with_device_type(shape.c_type, [&](auto tag) {
    using T = decltype(tag);
    launch("a matmul's bias", {static_cast<unsigned>(shape.m), elementwise_threads, stream}, bias_kernel<T>,
           static_cast<T*>(operands.c), shape.c_row, static_cast<int>(shape.n), operands.bias);
  });
}

void launch_relu(const MatmulShape& shape, const MatmulOperands& operands, WorkStream stream) {
  with_device_type(shape.c_type, [&](auto tag) {
    using T = decltype(tag);
    launch("a matmul's relu", {static_cast<unsigned>(shape.m), elementwise_threads, stream}, relu_kernel<T>,
           static_cast<T*>(operands.c), shape.c_row, static_cast<int>(shape.n));
  });
}

void launch_add_blocks(const float* partial, std::int64_t blocks, std::initializer_list<Tensor> sums, bool accumulate,
                       WorkStream stream) {
  const std::int64_t count = sums.begin()->shape.elements();
  if (count == 0) return;
  const SumPlaces places{sums.begin()->as<float>(), std::prev(sums.end())->as<float>()};
  const dim3 grid(static_cast<unsigned>((count + warp_lanes - 1) / warp_lanes), static_cast<unsigned>(sums.size()));
  launch("sums over rows", {grid, dim3(warp_lanes, sum_lanes), stream}, add_blocks_kernel, partial, blocks, places,
         static_cast<int>(count), accumulate);
}

std::int64_t epilogue_aux_words(const LinearForward& op, CudaContext& context) {
  if (op.activation != Activation::relu || !op.bias) return 0;
  MatmulShape shape = forward_matmul(op.x, op.weight, op.y);
  shape.epilogue = Epilogue::bias_relu_mask;
  const MatmulOperands operands{.bias = op.bias.as<float>(), .bias_copy = bias_copy(op)};
  return context.matmul().has(shape, operands) ? relu_mask_words(shape.n) : 0;
}

void run(const LinearForward& op, CudaContext& context) {
  MatmulShape shape = forward_matmul(op.x, op.weight, op.y);
  const bool relu = op.activation == Activation::relu;
  shape.epilogue = op.bias ? (relu ? Epilogue::bias_relu : Epilogue::bias) : (relu ? Epilogue::relu : Epilogue::none);
  if (op.epilogue_aux) shape.epilogue = Epilogue::bias_relu_mask;
  const MatmulOperands operands{.a = op.x.data,
                                .b = op.weight.data,
                                .bias = op.bias ? op.bias.as<float>() : nullptr,
                                .bias_copy = bias_copy(op),
                                .c = op.y.data,
                                .relu_mask = op.epilogue_aux.data};
  context.matmul().run(shape, operands);
}

void run(const LinearBackwardData& op, CudaContext& context) {
  MatmulShape shape = data_gradient_matmul(op.dy, op.weight, op.dx);
  shape.accumulate = op.accumulate;
  const MatmulOperands operands{.a = op.dy.data,
                                .b = op.weight.data,
                                .c = op.dx.data,
                                .alpha = op.gate ? op.gate_scale : 1.0f,
                                .relu_mask = const_cast<void*>(op.epilogue_aux.data)};
  if (op.epilogue_aux) {
    MatmulShape gated = shape;
    gated.epilogue = Epilogue::relu_gradient;
    if (context.matmul().run_fused(gated, operands)) return;
  }
  context.matmul().run(shape, operands);
  if (!op.gate || op.dx.shape.elements() == 0) return;
  with_device_type(op.dx.dtype, [&](auto tag) {
    using T = decltype(tag);
    with_pieces<T>({shape.n, op.dx.row_stride, op.gate.row_stride}, {op.dx.data, op.gate.data}, [&](auto n) {
      launch(op.name, {static_cast<unsigned>(shape.m), elementwise_threads, context.stream()}, gate_kernel<n, T>,
             op.dx.as<T>(), op.dx.row_stride, op.gate.as<T>(), op.gate.row_stride, static_cast<int>(shape.n));
    });
  });
}

void run(const LinearBackwardWeight& op, CudaContext& context) {
  MatmulShape shape = weight_gradient_matmul(op.dy, op.x, op.dweight);
  shape.accumulate = op.accumulate;
  if (op.dbias && multiply_and_sum(op, shape, context)) return;
  if (shape.k > 0) {
    context.matmul().run(shape, {.a = op.dy.data, .b = op.x.data, .c = op.dweight.data});
  } else if (!op.accumulate) {
    run(Fill{.y = op.dweight, .value = 0}, context);
  }
  if (op.dbias) add_column_sums(op.dy, op.dbias, op.accumulate, context);
}

}  // namespace babelring::cuda
