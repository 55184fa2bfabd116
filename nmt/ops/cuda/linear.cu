#include "nmt/ops/linear.h"

#include "nmt/ops/cuda/device_math.cuh"
#include "nmt/ops/cuda/launch.cuh"
#include "nmt/ops/cuda/launch.h"
#include "nmt/ops/cuda/pieces.cuh"
#include "nmt/ops/elementwise.h"

namespace babelring::cuda {

namespace {

constexpr int tile_side = 16;

/// One element of C a thread, operands by tiles of 16 x 16. For shapes that the library has nothing for.
template <class T, class C>
__global__ void plain_matmul_kernel(MatmulShape shape, const T* a, const T* b, C* c, float alpha) {
  await_earlier_kernels();
  __shared__ float a_tile[tile_side][tile_side + 1], b_tile[tile_side][tile_side + 1];
  const std::int64_t batch = blockIdx.z;
  a += batch * shape.a_batch, b += batch * shape.b_batch, c += batch * shape.c_batch;
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * tile_side + threadIdx.y;
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.y) * tile_side + threadIdx.x;
  float sum = 0;
  for (std::int64_t first = 0; first < shape.k; first += tile_side) {
    const std::int64_t of_a = first + threadIdx.x, of_b = first + threadIdx.y;
    const bool in_a = row < shape.m && of_a < shape.k, in_b = column < shape.n && of_b < shape.k;
    a_tile[threadIdx.y][threadIdx.x] = in_a ? widen(a[row * shape.a_row + of_a * shape.a_column]) : 0.0f;
    b_tile[threadIdx.y][threadIdx.x] = in_b ? widen(b[of_b * shape.b_row + column * shape.b_column]) : 0.0f;
    __syncthreads();
    for (int l = 0; l < tile_side; ++l) sum += a_tile[threadIdx.y][l] * b_tile[l][threadIdx.x];
    __syncthreads();
  }
  if (row >= shape.m || column >= shape.n) return;
  C& to = c[row * shape.c_row + column];
  to = narrow<C>(alpha * sum + (shape.accumulate ? widen(to) : 0.0f));
}

/// One block a row.
template <class T>
__global__ void bias_kernel(T* y, std::int64_t stride, int width, const float* bias) {
  await_earlier_kernels();
  T* row = y + blockIdx.x * stride;
  for (int i = threadIdx.x; i < width; i += blockDim.x) row[i] = narrow<T>(bias[i]);
}

/// One block a row.
template <class T>
__global__ void relu_kernel(T* y, std::int64_t stride, int width) {
  await_earlier_kernels();
  T* row = y + blockIdx.x * stride;
  for (int i = threadIdx.x; i < width; i += blockDim.x) {
    if (widen(row[i]) < 0) row[i] = narrow<T>(0);
  }
}

constexpr int column_threads = 64;

/// Blocks of sum_block_rows rows and of n columns a thread.
template <int n>
dim3 column_blocks(std::int64_t rows, std::int64_t width) {
  constexpr int columns = column_threads * n;
  return {static_cast<unsigned>(sum_blocks(rows)), static_cast<unsigned>((width + columns - 1) / columns)};
}
template <int n>
__device__ int column_of_thread() {
  return static_cast<int>(blockIdx.y * column_threads + threadIdx.x) * n;
}
__device__ std::int64_t first_row_of_block() {
  return blockIdx.x * sum_block_rows;
}
__device__ std::int64_t end_of_block(std::int64_t rows) {
  const std::int64_t end = first_row_of_block() + sum_block_rows;
  return end < rows ? end : rows;
}
template <int n>
__device__ void put_column_sums(const float (&sums)[n], float* partial, int width, int column) {
  float* to = partial + static_cast<std::int64_t>(blockIdx.x) * width + column;
#pragma unroll
  for (int e = 0; e < n; ++e) to[e] = sums[e];
}

constexpr int column_lanes = 4;  // threads that share the rows of a block; with 1, too few loads are in flight

/// Sums over a block's rows: a lane adds every fourth row, then the lanes' sums are added in order.
template <int n, class T>
__global__ void __launch_bounds__(column_threads* column_lanes)
    column_sums_kernel(const T* dy, std::int64_t stride, std::int64_t rows, int width, float* partial) {
  await_earlier_kernels();
  __shared__ float of_lanes[column_lanes - 1][column_threads][n];
  const int column = column_of_thread<n>(), lane = static_cast<int>(threadIdx.y);
  const std::int64_t end = end_of_block(rows);
  float sums[n] = {};
  if (column < width) {
#pragma unroll 8
    for (std::int64_t row = first_row_of_block() + lane; row < end; row += column_lanes) {
      const auto piece = piece_at<n>(dy + row * stride + column);
#pragma unroll
      for (int e = 0; e < n; ++e) sums[e] += widen(piece.of[e]);
    }
  }
  if (lane > 0) {
#pragma unroll
    for (int e = 0; e < n; ++e) of_lanes[lane - 1][threadIdx.x][e] = sums[e];
  }
  __syncthreads();
  if (lane > 0 || column >= width) return;
  for (int other = 0; other < column_lanes - 1; ++other) {
#pragma unroll
    for (int e = 0; e < n; ++e) sums[e] += of_lanes[other][threadIdx.x][e];
  }
  put_column_sums(sums, partial, width, column);
}

/// The gradient before a ReLU, and the ReLU's output or what dropout left of it.
template <class T>
struct Gated {
  T* dx;
  std::int64_t dx_stride;
  const T* gate;
  std::int64_t gate_stride;

  __device__ T* dx_at(std::int64_t row, int column) const { return dx + row * dx_stride + column; }
  __device__ const T* gate_at(std::int64_t row, int column) const { return gate + row * gate_stride + column; }
};

/// dx = 0 where the gate is not positive, in `count` rows that are on their way from memory together; adds them to the
/// sums one after another.
template <int count, int n, class T>
__device__ void gate_rows(const Gated<T>& operands, std::int64_t row, int column, float (&sums)[n]) {
  Elements<T, n> dx[count], gate[count];
#pragma unroll
  for (int r = 0; r < count; ++r) {
    dx[r] = Elements<T, n>(operands.dx_at(row + r, column));
    gate[r] = Elements<T, n>(operands.gate_at(row + r, column));
  }
#pragma unroll
  for (int r = 0; r < count; ++r) {
    float gated[n];
#pragma unroll
    for (int e = 0; e < n; ++e) {
      gated[e] = gate[r][e] > 0 ? dx[r][e] : 0.0f;
      sums[e] += gated[e];
    }
    put_elements(operands.dx_at(row + r, column), Elements<T, n>(gated));
  }
}

/// Gates a block's rows and sums what is stored. No sums are written if `partial` is null.
template <int n, class T>
__global__ void __launch_bounds__(column_threads)
    gate_kernel(Gated<T> operands, std::int64_t rows, int width, float* partial) {
  await_earlier_kernels();
  constexpr int rows_at_once = 4;
  const int column = column_of_thread<n>();
  if (column >= width) return;
  const std::int64_t end = end_of_block(rows);
  float sums[n] = {};
  std::int64_t row = first_row_of_block();
  for (; row + rows_at_once <= end; row += rows_at_once) gate_rows<rows_at_once>(operands, row, column, sums);
  for (; row < end; ++row) gate_rows<1>(operands, row, column, sums);
  if (partial != nullptr) put_column_sums(sums, partial, width, column);
}

constexpr int sum_lanes = 16;  // threads that share a column's blocks

/// Where the sums go, in their order.
struct SumPlaces {
  float *first, *second, *third;
};

/// 32 columns a block, a sum of `count` for each blockIdx.y. A thread adds every 16th block of a column, then one adds
/// the 16 sums.
__global__ void add_blocks_kernel(const float* partial, std::int64_t blocks, SumPlaces sums, int count,
                                  bool accumulate) {
  await_earlier_kernels();
  __shared__ float of_lanes[sum_lanes][warp_lanes];
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.y) * count;
  const int i = blockIdx.x * warp_lanes + threadIdx.x;
  partial += blockIdx.y * count;
  float* sum = blockIdx.y == 0 ? sums.first : blockIdx.y == 1 ? sums.second : sums.third;
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

/// sums = column sums of dy, or sums += them.
void add_column_sums(const ConstTensor& dy, const Tensor& sums, bool accumulate, CudaContext& context) {
  const std::int64_t rows = dy.shape[0], width = dy.shape[1];
  if (width == 0) return;
  const Arena::Scope scope(context.scratch());
  auto* partial = context.scratch().make(Shape{sum_blocks(rows), width}, DType::f32).as<float>();
  if (rows > 0) {
    with_device_type(dy.dtype, [&](auto tag) {
      using T = decltype(tag);
      with_pieces<T>({width, dy.row_stride}, {dy.data}, [&](auto n) {
        launch("column sums", {column_blocks<n>(rows, width), {column_threads, column_lanes}, context.stream()},
               column_sums_kernel<n, T>, dy.as<T>(), dy.row_stride, rows, static_cast<int>(width), partial);
      });
    });
  }
  launch_add_blocks(partial, sum_blocks(rows), {sums}, accumulate, context.stream());
}

/// dx = 0 where the gate is not positive, and dbias.
void apply_gate(const LinearBackwardData& op, CudaContext& context) {
  const std::int64_t rows = op.dx.shape[0], width = op.dx.shape[1];
  if (width == 0) return;
  const Arena::Scope scope(context.scratch());
  float* partial = nullptr;
  if (op.dbias) partial = context.scratch().make(Shape{sum_blocks(rows), width}, DType::f32).as<float>();
  if (rows > 0) {
    with_device_type(op.dx.dtype, [&](auto tag) {
      using T = decltype(tag);
      const Gated<T> operands{op.dx.as<T>(), op.dx.row_stride, op.gate.as<T>(), op.gate.row_stride};
      with_pieces<T>({width, operands.dx_stride, operands.gate_stride}, {operands.dx, operands.gate}, [&](auto n) {
        launch(op.name, {column_blocks<n>(rows, width), column_threads, context.stream()}, gate_kernel<n, T>, operands,
               rows, static_cast<int>(width), partial);
      });
    });
  }
  if (op.dbias) launch_add_blocks(partial, sum_blocks(rows), {op.dbias}, op.accumulate_dbias, context.stream());
}

/// The bias in the result's type; null: there is none.
const void* bias_copy(const LinearForward& op) {
  return op.bias_copy.dtype == op.y.dtype ? op.bias_copy.data : nullptr;
}

}  // namespace

void launch_plain_matmul(const MatmulShape& shape, const MatmulOperands& operands, WorkStream stream) {
  const dim3 grid(static_cast<unsigned>((shape.m + tile_side - 1) / tile_side),
                  static_cast<unsigned>((shape.n + tile_side - 1) / tile_side));
  constexpr std::int64_t max_at_once = 65535;
  with_device_type(shape.type, [&](auto of_operands) {
    with_device_type(shape.c_type, [&](auto of_result) {
      using T = decltype(of_operands);
      using C = decltype(of_result);
      for (std::int64_t first = 0; first < shape.batch; first += max_at_once) {
        const std::int64_t batches = shape.batch - first < max_at_once ? shape.batch - first : max_at_once;
        const LaunchShape place{dim3(grid.x, grid.y, static_cast<unsigned>(batches)), dim3(tile_side, tile_side),
                                stream};
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
  float* places[3] = {};
  unsigned kinds = 0;
  for (const Tensor& sum : sums) {
    if (sum) places[kinds++] = sum.as<float>();
  }
  const dim3 grid(static_cast<unsigned>((count + warp_lanes - 1) / warp_lanes), kinds);
  launch("sums over rows", {grid, dim3(warp_lanes, sum_lanes), stream}, add_blocks_kernel, partial, blocks,
         SumPlaces{places[0], places[1], places[2]}, static_cast<int>(count), accumulate);
}

void run(const LinearForward& op, CudaContext& context) {
  MatmulShape shape = forward_matmul(op.x, op.weight, op.y);
  const bool relu = op.activation == Activation::relu;
  shape.epilogue = op.bias ? (relu ? Epilogue::bias_relu : Epilogue::bias) : (relu ? Epilogue::relu : Epilogue::none);
  const MatmulOperands operands{.a = op.x.data,
                                .b = op.weight.data,
                                .bias = op.bias ? op.bias.as<float>() : nullptr,
                                .bias_copy = bias_copy(op),
                                .c = op.y.data};
  context.matmul().run(shape, operands);
}

void run(const LinearBackwardData& op, CudaContext& context) {
  MatmulShape shape = data_gradient_matmul(op.dy, op.weight, op.dx);
  shape.accumulate = op.accumulate;
  context.matmul().run(
      shape, {.a = op.dy.data, .b = op.weight.data, .c = op.dx.data, .alpha = op.gate ? op.gate_scale : 1.0f});
  if (op.gate) apply_gate(op, context);
}

void run(const LinearBackwardWeight& op, CudaContext& context) {
  MatmulShape shape = weight_gradient_matmul(op.dy, op.x, op.dweight);
  shape.accumulate = op.accumulate;
  if (shape.k > 0) {
    context.matmul().run(shape, {.a = op.dy.data, .b = op.x.data, .c = op.dweight.data});
  } else if (!op.accumulate) {
    run(Fill{.y = op.dweight, .value = 0}, context);
  }
  if (op.dbias) add_column_sums(op.dy, op.dbias, op.accumulate, context);
}

}  // namespace babelring::cuda
