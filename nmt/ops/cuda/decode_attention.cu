#include "nmt/ops/attention.h"
#include "nmt/ops/cuda/device_math.cuh"
#include "nmt/ops/cuda/launch.cuh"
#include "nmt/ops/cuda/launch.h"

namespace babelring::cuda {

namespace {

constexpr int decode_threads = 128;  // and the number of keys per iteration

template <class T>
struct DecodeOperands {
  const T *q, *keys, *values;
  std::int64_t q_stride, key_stride, value_stride;
  const int *key_begin, *key_rows, *key_count;
  std::int64_t listed;  // columns of key_rows
  T* out;
  int head_width;
  float scale;

  __device__ std::int64_t key_row(std::int64_t row, int j) const {
    return key_rows != nullptr ? key_rows[row * listed + j] : key_begin[row] + j;
  }
};

/// One block for a row and a head. Softmax in one pass over the keys: what was summed under an earlier, smaller maximum
/// is scaled down when a larger one turns up.
template <class T>
__global__ void decode_attention_kernel(DecodeOperands<T> operands) {
  await_earlier_kernels();
  auto* sums = dynamic_shared<float>();  // [head width]: of probability times value
  __shared__ float powers[decode_threads];
  __shared__ std::int64_t places[decode_threads];
  const std::int64_t row = blockIdx.x;
  const int column = blockIdx.y * operands.head_width, count = operands.key_count[row];
  const T* q = operands.q + row * operands.q_stride + column;
  for (int i = threadIdx.x; i < operands.head_width; i += decode_threads) sums[i] = 0;
  float largest = -INFINITY, total = 0;
  for (int first = 0; first < count; first += decode_threads) {
    const int j = first + threadIdx.x;
    float score = -INFINITY;
    if (j < count) {
      places[threadIdx.x] = operands.key_row(row, j);
      const T* key = operands.keys + places[threadIdx.x] * operands.key_stride + column;
      score = 0;
      for (int i = 0; i < operands.head_width; ++i) score += widen(q[i]) * widen(key[i]);
      score *= operands.scale;
    }
    const float now = fmaxf(largest, block_reduce<decode_threads>(score, Larger()));
    const float shrink = largest == now ? 1.0f : expf(largest - now);
    const float power = j < count ? expf(score - now) : 0.0f;
    powers[threadIdx.x] = power;
    total = total * shrink + block_reduce<decode_threads>(power, Plus());  // and powers and places are there for all
    largest = now;
    const int keys = count - first < decode_threads ? count - first : decode_threads;
    for (int i = threadIdx.x; i < operands.head_width; i += decode_threads) {
      float sum = sums[i] * shrink;
      for (int l = 0; l < keys; ++l)
        sum += powers[l] * widen(operands.values[places[l] * operands.value_stride + column + i]);
      sums[i] = sum;
    }
    __syncthreads();  // before the next keys are written
  }
  T* out = operands.out + row * gridDim.y * operands.head_width + column;
  for (int i = threadIdx.x; i < operands.head_width; i += decode_threads) {
    out[i] = narrow<T>(count > 0 ? sums[i] / total : 0.0f);
  }
}

}  // namespace

void run(const DecodeAttention& op, CudaContext& context) {
  const std::int64_t rows = op.q.shape[0], head_width = op.q.shape[1] / op.heads;
  if (op.q.shape.elements() == 0) return;
  const auto list = [&](const ConstTensor& host) -> const int* {
    return host ? context.lists().on_device(host_list(host)) : nullptr;
  };
  with_device_type(op.q.dtype, [&](auto tag) {
    using T = decltype(tag);
    const DecodeOperands<T> operands{.q = op.q.as<T>(),
                                     .keys = op.keys.as<T>(),
                                     .values = op.values.as<T>(),
                                     .q_stride = op.q.row_stride,
                                     .key_stride = op.keys.row_stride,
                                     .value_stride = op.values.row_stride,
                                     .key_begin = list(op.key_begin),
                                     .key_rows = list(op.key_rows),
                                     .key_count = list(op.key_count),
                                     .listed = op.key_rows.columns(),
                                     .out = op.out.as<T>(),
                                     .head_width = static_cast<int>(head_width),
                                     .scale = op.scale};
    const dim3 grid(static_cast<unsigned>(rows), static_cast<unsigned>(op.heads));
    launch(op.name, {grid, decode_threads, context.stream(), static_cast<std::size_t>(head_width) * sizeof(float)},
           decode_attention_kernel<T>, operands);
  });
}

}  // namespace babelring::cuda
