#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "nmt/core/random.h"
#include "nmt/ops/attention.h"
#include "nmt/ops/backend.h"
#include "nmt/ops/cuda_module.h"
#include "nmt/ops/staging.h"
#include "tests/reference/closed_backend.h"
#include "tests/reference/emulated_cuda.h"
#include "tests/reference/matrix.h"
#include "tests/reference/reference_backend.h"

namespace babelring {

/// Owns tensors of one test and fills them from a fixed seed.
class Tensors {
 public:
  Tensor zeros(Shape shape, DType type) {
    buffers_.push_back(allocate_host(static_cast<std::size_t>(std::max<std::int64_t>(shape.elements(), 1)) * 4));
    return buffers_.back().view(shape, type);
  }
  /// Normal values times `scale`.
  Tensor normal(Shape shape, DType type, double scale = 1) {
    const Tensor tensor = zeros(shape, type);
    reference::Matrix values(tensor.rows(), tensor.columns());
    for (double& value : values.values) value = scale * random_.normal();
    reference::store(values, tensor);
    return tensor;
  }
  /// Columns out of the middle of a wider matrix.
  Tensor strided(std::int64_t rows, std::int64_t columns, DType type) {
    return normal({rows, 3 * columns}, type).column_slice(columns, columns);
  }
  /// Integers in [0, bound).
  Tensor integers(std::int64_t count, std::int64_t bound) {
    const Tensor tensor = zeros({count}, DType::i32);
    for (std::int64_t i = 0; i < count; ++i) {
      tensor.as<std::int32_t>()[i] = static_cast<std::int32_t>(random_.below(static_cast<std::uint64_t>(bound)));
    }
    return tensor;
  }
  Tensor list(const std::vector<std::int32_t>& values) {
    const Tensor tensor = zeros({static_cast<std::int64_t>(values.size())}, DType::i32);
    std::copy(values.begin(), values.end(), tensor.as<std::int32_t>());
    return tensor;
  }
  /// The same values in memory of their own, contiguous; absent for an absent one.
  Tensor copy(const ConstTensor& tensor) {
    if (!tensor) return {};
    const Tensor result = zeros(tensor.shape, tensor.dtype);
    reference::store(reference::load(tensor), result);
    return result;
  }

 private:
  Random random_{20261121};
  std::vector<Buffer> buffers_;
};

/// The gradient of an attention, with a `dout` and room for the results, all of the operands' type.
inline AttentionBackward gradient_of(const AttentionForward& op, Tensors& tensors) {
  const auto room = [&](const ConstTensor& operand) {
    return tensors.strided(operand.rows(), operand.columns(), operand.dtype);
  };
  return {.dout = tensors.normal(op.q.shape, op.q.dtype),
          .out = op.out,
          .q = op.q,
          .k = op.k,
          .v = op.v,
          .q_offsets = op.q_offsets,
          .k_offsets = op.k_offsets,
          .log_sum_exp = op.log_sum_exp,
          .heads = op.heads,
          .causal = op.causal,
          .scale = op.scale,
          .key = op.key,
          .dq = room(op.q),
          .dk = room(op.k),
          .dv = room(op.v)};
}

/// Largest difference relative to the largest expected value, or to `largest` if that is more: the magnitude of the
/// terms where they cancel.
inline double relative_error(const ConstTensor& found, const ConstTensor& expected, double largest = 1e-3) {
  const reference::Matrix a = reference::load(found), b = reference::load(expected);
  double difference = 0;
  for (std::size_t i = 0; i < a.values.size(); ++i) {
    if (a.values[i] == b.values[i]) continue;  // infinities too
    const double apart = std::abs(a.values[i] - b.values[i]);
    difference = std::isnan(apart) ? INFINITY : std::max(difference, apart);
    largest = std::max(largest, std::abs(b.values[i]));
  }
  return difference / largest;
}

inline bool same_bits(const ConstTensor& a, const ConstTensor& b) {
  return std::memcmp(a.data, b.data, a.bytes()) == 0;
}

/// A stored type and its tolerance: the type's rounding, a few units more for sums.
struct Precision {
  DType type;
  double tolerance;
  const char* device = "cpu";
};

/// The CPU, a GPU (null where there is none), the GPU's code emulated on the CPU, or the CPU with memory that is closed
/// like a GPU's; all take tensors in the host's memory.
inline std::unique_ptr<Backend> make_tested_backend(std::string_view device, int threads) {
  if (device == "cpu") return make_cpu_backend(threads);
  if (device == "closed") return make_staged_backend(make_closed_backend());
  if (device == "emulated") return make_staged_backend(make_emulated_cuda_backend());
  return !find_cuda() ? nullptr : make_staged_backend(make_cuda_backend(0));
}

/// Runs ops on the backend under test and on the reference.
class OpTest : public testing::TestWithParam<Precision> {
 protected:
  void SetUp() override {
    if (tested == nullptr) GTEST_SKIP() << "no GPU: " << find_cuda().error();
  }
  DType type() const { return GetParam().type; }
  std::unique_ptr<Backend> another_backend(int threads) const {
    return make_tested_backend(GetParam().device, threads);
  }

  /// Runs `op` on the reference with copies of its results, then on the backend under test, and compares each result.
  /// `largest`: see relative_error().
  template <class Op>
  void expect_as_reference(const Op& op, std::initializer_list<Tensor Op::*> results, double largest = 1e-3) {
    Op truth = op;
    for (Tensor Op::* result : results) truth.*result = tensors.copy(op.*result);
    reference->run(truth);
    tested->run(op);
    for (Tensor Op::* result : results) {
      const bool rounded = (op.*result).dtype == DType::bf16;
      EXPECT_LE(relative_error(op.*result, truth.*result, largest), rounded ? GetParam().tolerance : f32_tolerance())
          << Op::name << ", a result of shape " << (op.*result).shape.text();
    }
  }
  /// Results in f32 of bf16 operands are as good as those of f32 operands.
  static double f32_tolerance() { return 3e-5; }

  Tensors tensors;
  std::unique_ptr<Backend> tested = make_tested_backend(GetParam().device, 2);
  std::unique_ptr<Backend> reference = make_reference_backend();
};

inline const auto gpu_precisions =
    testing::Values(Precision{DType::f32, 3e-5, "closed"}, Precision{DType::f32, 3e-5, "emulated"},
                    Precision{DType::bf16, 1e-2, "emulated"}, Precision{DType::f32, 3e-5, "cuda"},
                    Precision{DType::bf16, 1e-2, "cuda"});
inline const auto precisions = testing::Values(Precision{DType::f32, 3e-5}, Precision{DType::bf16, 1e-2});
inline std::string precision_name(const testing::TestParamInfo<Precision>& info) {
  const std::string device = info.param.device, type(name_of(info.param.type));
  return device == "cpu" ? type : device + "_" + type;
}

}  // namespace babelring
