#include "nmt/ops/layer_norm.h"

#include <algorithm>
#include <cmath>

#include "nmt/ops/cpu/kernels.h"
#include "nmt/ops/cpu/vector_math.h"

namespace babelring::cpu {

namespace {

constexpr std::int64_t block_rows = 32;  // of the sums over rows: fixed, so that threads change nothing

template <class T>
void forward_row(const LayerNormForward& op, std::int64_t row) {
  const std::int64_t width = op.x.shape[1];
  const T* x = op.x.as<T>() + row * width;
  T* y = op.y.as<T>() + row * width;
  const float *gain = op.gain.as<float>(), *bias = op.bias.as<float>();
  float sum = 0, squares = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < width; ++i) sum += load(x[i]);
  const float mean = sum / static_cast<float>(width);
#pragma omp simd reduction(+ : squares)
  for (std::int64_t i = 0; i < width; ++i) squares += (load(x[i]) - mean) * (load(x[i]) - mean);
  const float rstd = 1 / std::sqrt(squares / static_cast<float>(width) + op.eps);
#pragma omp simd
  for (std::int64_t i = 0; i < width; ++i) y[i] = rounded<T>((load(x[i]) - mean) * rstd * gain[i] + bias[i]);
  op.mean.as<float>()[row] = mean;
  op.rstd.as<float>()[row] = rstd;
}

/// dx of one row; adds the row's part to dgain and dbias.
template <class T>
void backward_row(const LayerNormBackward& op, std::int64_t row, float* __restrict dgain, float* __restrict dbias) {
  const std::int64_t width = op.x.shape[1];
  const T *x = op.x.as<T>() + row * width, *dy = op.dy.as<T>() + row * width;
  T* dx = op.dx.as<T>() + row * width;
  const float* gain = op.gain.as<float>();
  const float mean = op.mean.as<float>()[row], rstd = op.rstd.as<float>()[row];
  float sum = 0, projection = 0;
#pragma omp simd reduction(+ : sum, projection)
  for (std::int64_t i = 0; i < width; ++i) {
    const float n = (load(x[i]) - mean) * rstd, d = load(dy[i]), g = d * gain[i];
    sum += g;
    projection += g * n;
    dgain[i] += d * n;
    dbias[i] += d;
  }
  sum /= static_cast<float>(width);
  projection /= static_cast<float>(width);
  const float before = op.accumulate ? 1.0f : 0.0f;
#pragma omp simd
  for (std::int64_t i = 0; i < width; ++i) {
    const float n = (load(x[i]) - mean) * rstd, g = load(dy[i]) * gain[i];
    const float value = rstd * (g - sum - n * projection);
    dx[i] = rounded<T>(before != 0 ? load(dx[i]) + value : value);
  }
}

/// Adds `blocks` partial sums, `stride` apart, in their order.
void add_blocks(const float* partial, std::int64_t blocks, std::int64_t stride, const Tensor& sum) {
  float* to = sum.as<float>();
  for (std::int64_t b = 0; b < blocks; ++b) {
#pragma omp simd
    for (std::int64_t i = 0; i < sum.columns(); ++i) to[i] += partial[b * stride + i];
  }
}

}  // namespace

void run(const LayerNormForward& op, Workspace& workspace) {
  const std::int64_t rows = op.x.shape[0];
  with_float_type(op.x.dtype, [&](auto tag) {
#pragma omp parallel for schedule(static) num_threads(workspace.threads_for(op.x.shape.elements()))
    for (std::int64_t row = 0; row < rows; ++row) forward_row<decltype(tag)>(op, row);
  });
}

void run(const LayerNormBackward& op, Workspace& workspace) {
  const std::int64_t rows = op.x.shape[0], width = op.x.shape[1], blocks = (rows + block_rows - 1) / block_rows;
  float* partial = workspace.shared(blocks * 2 * width);
  with_float_type(op.x.dtype, [&](auto tag) {
#pragma omp parallel for schedule(static) num_threads(workspace.threads_for(op.x.shape.elements()))
    for (std::int64_t b = 0; b < blocks; ++b) {
      float *dgain = partial + b * 2 * width, *dbias = dgain + width;
      std::fill(dgain, dbias + width, 0.0f);
      for (std::int64_t row = b * block_rows; row < std::min(rows, (b + 1) * block_rows); ++row) {
        backward_row<decltype(tag)>(op, row, dgain, dbias);
      }
    }
  });
  add_blocks(partial, blocks, 2 * width, op.dgain);
  add_blocks(partial + width, blocks, 2 * width, op.dbias);
}

}  // namespace babelring::cpu
