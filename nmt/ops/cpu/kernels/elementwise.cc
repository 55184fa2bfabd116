#include "nmt/ops/elementwise.h"

#include <cmath>
#include <type_traits>

#include "nmt/ops/cpu/cpu_context.h"
#include "nmt/ops/cpu/kernels/lanes.h"
#include "nmt/ops/cpu/kernels/vector_math.h"

namespace babelring::cpu::BABELRING_KERNEL_SET {

void run(const Dropout& op, CpuContext& context) {
  const std::int64_t rows = op.x.shape[0], width = op.x.shape[1];
  with_float_type(op.x.dtype, [&](auto tag) {
    using T = decltype(tag);
#pragma omp parallel for schedule(static) num_threads(context.threads_for(rows* width))
    for (std::int64_t row = 0; row < rows; ++row) {
      const T* x = op.x.as<T>() + row * op.x.row_stride;
      T* y = op.y.as<T>() + row * op.y.row_stride;
      const DropoutRow dropout(op.key, row);
      const Vec16f scale = broadcast(dropout.scale());
      for_dropped_lanes(dropout, width, [&](std::int64_t i, auto mask, std::uint32_t keep) {
        store_lanes(y + i, select(keep, load_lanes(x + i, mask) * scale), mask);
      });
    }
  });
}

void run(const ResidualDropout& op, CpuContext& context) {
  const std::int64_t rows = op.y.shape[0], width = op.y.shape[1];
  with_float_type(op.y.dtype, [&](auto tag) {
    using T = decltype(tag);
#pragma omp parallel for schedule(static) num_threads(context.threads_for(rows* width))
    for (std::int64_t row = 0; row < rows; ++row) {
      const T* residual = op.residual.as<T>() + row * width;
      const T* branch = op.branch.as<T>() + row * width;
      T* y = op.y.as<T>() + row * width;
      const DropoutRow dropout(op.key, row);
      const Vec16f scale = broadcast(dropout.scale());
      for_dropped_lanes(dropout, width, [&](std::int64_t i, auto mask, std::uint32_t keep) {
        const Vec16f added = select(keep, load_lanes(branch + i, mask));
        store_lanes(y + i, multiply_add(added, scale, load_lanes(residual + i, mask)), mask);
      });
    }
  });
}

namespace {

float sigmoid(float z) {
  const float power = exponential(-std::abs(z));  // at most 1
  return (z < 0 ? power : 1.0f) / (1.0f + power);
}

/// The standard normal distribution at z: its density and the probability of less. The smaller tail is
/// e^(-z^2 / 2) t P(t) with t = 1 / (1 + 0.3 |z|), the form of Abramowitz and Stegun 7.1.26; P of degree 7 has the
/// smallest relative error up to |z| = 13, 1.2e-7.
struct Normal {
  explicit Normal(float z) {
    const float power = exponential(-0.5f * z * z), t = 1.0f / (1.0f + 0.3f * std::abs(z));
    float p = 0.0361950287f;
    p = p * t - 0.159378977f;
    p = p * t + 0.210119454f;
    p = p * t - 0.0571682645f;
    p = p * t + 0.130416892f;
    p = p * t + 0.0993470019f;
    p = p * t + 0.120845548f;
    p = p * t + 0.119623262f;
    const float tail = power * t * p;
    density = 0.398942280f * power;
    below = z < 0 ? tail : 1.0f - tail;
  }
  float density, below;
};

struct Swish {
  static float value(float z) { return z * sigmoid(z); }
  static float slope(float z) {
    const float s = sigmoid(z);
    return s + z * s * (1.0f - s);
  }
};
struct SwiGlu : Swish {};  // of a gate, times `up`
struct Gelu {
  static float value(float z) { return z * Normal(z).below; }
  static float slope(float z) {
    const Normal normal(z);
    return normal.below + z * normal.density;
  }
};

/// For each run of elements of op.z with the same kind of dropout factors, as for_dropout_runs() has them:
/// body(Swish(), Gelu() or SwiGlu(), a T, row, first column, count, factors).
template <class Op, class Body>
void for_activation_runs(const Op& op, CpuContext& context, Body&& body) {
  const std::int64_t rows = op.z.shape[0], width = op.z.shape[1];
  const auto run_rows = [&](auto activation, auto tag) {
#pragma omp parallel for schedule(static) num_threads(context.threads_for(rows* width))
    for (std::int64_t row = 0; row < rows; ++row) {
      for_dropout_runs(op.key, row, width, [&](std::int64_t first, std::int64_t count, const float* factors) {
        body(activation, tag, row, first, count, factors);
      });
    }
  };
  with_float_type(op.z.dtype, [&](auto tag) {
    if (op.activation == Activation::swish) return run_rows(Swish(), tag);
    op.activation == Activation::gelu ? run_rows(Gelu(), tag) : run_rows(SwiGlu(), tag);
  });
}

template <class T>
const T* elements(const ConstTensor& x, std::int64_t row, std::int64_t column) {
  return x.as<T>() + row * x.row_stride + column;
}
template <class T>
T* elements(const Tensor& x, std::int64_t row, std::int64_t column) {
  return x.as<T>() + row * x.row_stride + column;
}

}  // namespace

void run(const ActivationForward& op, CpuContext& context) {
  for_activation_runs(
      op, context,
      [&](auto activation, auto tag, std::int64_t row, std::int64_t first, std::int64_t count, const float* factors) {
        using T = decltype(tag);
        const T* z = elements<T>(op.z, row, first);
        T* y = elements<T>(op.y, row, first);
        if constexpr (std::is_same_v<decltype(activation), SwiGlu>) {
          const T* up = elements<T>(op.up, row, first);
#pragma omp simd
          for (std::int64_t i = 0; i < count; ++i) {
            y[i] = rounded<T>(factors[i] > 0 ? factors[i] * activation.value(load(z[i])) * load(up[i]) : 0.0f);
          }
        } else {
#pragma omp simd
          for (std::int64_t i = 0; i < count; ++i) {
            y[i] = rounded<T>(factors[i] > 0 ? factors[i] * activation.value(load(z[i])) : 0.0f);
          }
        }
      });
}

void run(const ActivationBackward& op, CpuContext& context) {
  for_activation_runs(
      op, context,
      [&](auto activation, auto tag, std::int64_t row, std::int64_t first, std::int64_t count, const float* factors) {
        using T = decltype(tag);
        const T *dy = elements<T>(op.dy, row, first), *z = elements<T>(op.z, row, first);
        T* dz = elements<T>(op.dz, row, first);
        if constexpr (std::is_same_v<decltype(activation), SwiGlu>) {
          const T* up = elements<T>(op.up, row, first);
          T* dup = elements<T>(op.dup, row, first);
#pragma omp simd
          for (std::int64_t i = 0; i < count; ++i) {
            const float gate = load(z[i]), d = factors[i] * load(dy[i]), s = sigmoid(gate);
            const float slope = s + gate * s * (1.0f - s), to_gate = d * load(up[i]) * slope;
            dz[i] = rounded<T>(factors[i] > 0 ? to_gate : 0.0f);
            dup[i] = rounded<T>(factors[i] > 0 ? d * (gate * s) : 0.0f);
          }
        } else {
#pragma omp simd
          for (std::int64_t i = 0; i < count; ++i) {
            dz[i] = rounded<T>(factors[i] > 0 ? factors[i] * activation.slope(load(z[i])) * load(dy[i]) : 0.0f);
          }
        }
      });
}

void run(const Cast& op, CpuContext& context) {
  const std::int64_t count = op.x.shape.elements();
  with_float_type(op.x.dtype, [&](auto from) {
    with_float_type(op.y.dtype, [&](auto to) {
      const auto* x = op.x.as<decltype(from)>();
      auto* y = op.y.as<decltype(to)>();
#pragma omp parallel for simd schedule(static) num_threads(context.threads_for(count))
      for (std::int64_t i = 0; i < count; ++i) y[i] = rounded<decltype(to)>(load(x[i]));
    });
  });
}

void run(const Fill& op, CpuContext& context) {
  const std::int64_t count = op.y.shape.elements();
  with_float_type(op.y.dtype, [&](auto tag) {
    using T = decltype(tag);
    auto* y = op.y.as<T>();
    const T value = rounded<T>(op.value);
#pragma omp parallel for simd schedule(static) num_threads(context.threads_for(count))
    for (std::int64_t i = 0; i < count; ++i) y[i] = value;
  });
}

void run(const Add& op, CpuContext& context) {
  const std::int64_t count = op.x.shape.elements();
  with_float_type(op.x.dtype, [&](auto tag) {
    using T = decltype(tag);
    const auto* x = op.x.as<T>();
    auto* y = op.y.as<T>();
#pragma omp parallel for simd schedule(static) num_threads(context.threads_for(count))
    for (std::int64_t i = 0; i < count; ++i) y[i] = rounded<T>(load(y[i]) + load(x[i]));
  });
}

}  // namespace babelring::cpu::BABELRING_KERNEL_SET
