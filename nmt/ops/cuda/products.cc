#include "nmt/ops/cuda/products.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "nmt/base/failure.h"
#include "nmt/ops/cuda/kernels.h"
#include "nmt/ops/cuda/launch.h"

namespace babelring::cuda {

namespace {

constexpr std::size_t library_memory = std::size_t{32} << 20;  // what NVIDIA advises for Hopper
constexpr std::size_t bias_memory = std::size_t{1} << 20;
constexpr std::size_t most_plans = 16384;   // packed batches have ever new numbers of rows
constexpr std::uint8_t whole_vectors = 16;  // bytes: libraries read a bias in vectors
// How much of the device an algorithm that sums the bias gradient too must fill, compared with that of the bare
// product. The latter splits its depth, the batch's rows, where the weight has too few tiles for all processors; the
// former may not be able to.
constexpr float least_share_of_waves = 0.8f;

cudaDataType_t cuda_type(DType type) {
  return type == DType::bf16 ? CUDA_R_16BF : CUDA_R_32F;
}

BlasHandle make_handle() {
  cublasLtHandle_t handle = nullptr;
  require(cublasLtCreate(&handle), "cublasLtCreate");
  return BlasHandle(handle);
}

template <class Value>
void set(const MatmulDescription& description, cublasLtMatmulDescAttributes_t attribute, const Value& value) {
  require(cublasLtMatmulDescSetAttribute(description.get(), attribute, &value, sizeof value), "describing a product");
}

template <class Value>
void set(const MatrixLayout& layout, cublasLtMatrixLayoutAttribute_t attribute, const Value& value) {
  require(cublasLtMatrixLayoutSetAttribute(layout.get(), attribute, &value, sizeof value), "describing a matrix");
}

template <class Value>
void set(const MatmulPreference& preference, cublasLtMatmulPreferenceAttributes_t attribute, const Value& value) {
  require(cublasLtMatmulPreferenceSetAttribute(preference.get(), attribute, &value, sizeof value),
          "asking for an algorithm");
}

/// A column-major matrix, as the library has them all.
MatrixLayout make_layout(DType type, std::int64_t rows, std::int64_t columns, std::int64_t column_stride,
                         std::int64_t batch, std::int64_t batch_stride) {
  cublasLtMatrixLayout_t layout = nullptr;
  require(cublasLtMatrixLayoutCreate(&layout, cuda_type(type), static_cast<std::uint64_t>(rows),
                                     static_cast<std::uint64_t>(columns), std::max(column_stride, rows)),
          "describing a matrix");
  MatrixLayout owned(layout);
  if (batch > 1) {
    set(owned, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<std::int32_t>(batch));
    set(owned, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, batch_stride);
  }
  return owned;
}

cublasLtEpilogue_t library_epilogue(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::bias:
      return CUBLASLT_EPILOGUE_BIAS;
    case Epilogue::relu:
      return CUBLASLT_EPILOGUE_RELU;
    case Epilogue::bias_relu:
      return CUBLASLT_EPILOGUE_RELU_BIAS;
    case Epilogue::bias_relu_mask:
      return CUBLASLT_EPILOGUE_RELU_AUX_BIAS;
    case Epilogue::relu_gradient:
      return CUBLASLT_EPILOGUE_DRELU;
    case Epilogue::bias_gradient:
      return CUBLASLT_EPILOGUE_BGRADB;  // its B is our A
    case Epilogue::none:
      break;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

bool has_bias(Epilogue epilogue) {
  return epilogue == Epilogue::bias || epilogue == Epilogue::bias_relu || epilogue == Epilogue::bias_relu_mask;
}
bool has_mask(Epilogue epilogue) {
  return epilogue == Epilogue::bias_relu_mask || epilogue == Epilogue::relu_gradient;
}
bool has_vector(Epilogue epilogue) {
  return has_bias(epilogue) || epilogue == Epilogue::bias_gradient;
}

bool aligned(const void* place) {
  return alignment_of(place, 0, 0) == whole_vectors;
}

/// Whether the environment's BABELRING_CUDA_EPILOGUES allows those that only training uses.
bool epilogues_for_training() {
  const char* found = std::getenv("BABELRING_CUDA_EPILOGUES");
  const std::string_view value = found == nullptr ? "all" : found;
  if (value != "all" && value != "forward") fail("BABELRING_CUDA_EPILOGUES is {}, all or forward is needed", value);
  return value == "all";
}

}  // namespace

Products::Products(const Stream& stream)
    : stream_(stream.get()),
      for_training_(epilogues_for_training()),
      handle_(make_handle()),
      memory_(allocate_device(library_memory + bias_memory)) {}

/// Row-major C = A B is the library's C^T = B^T A^T: its first operand is our B, its second our A.
void Products::describe(Plan& plan, const ProductShape& shape) const {
  cublasLtMatmulDesc_t description = nullptr;
  require(cublasLtMatmulDescCreate(&description, CUBLAS_COMPUTE_32F, CUDA_R_32F), "describing a product");
  plan.description = MatmulDescription(description);
  const bool turn_b = shape.b_column != 1, turn_a = shape.a_column != 1;
  set(plan.description, CUBLASLT_MATMUL_DESC_TRANSA, turn_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(plan.description, CUBLASLT_MATMUL_DESC_TRANSB, turn_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  plan.b = turn_b ? make_layout(shape.type, shape.k, shape.n, shape.b_column, shape.batch, shape.b_batch)
                  : make_layout(shape.type, shape.n, shape.k, shape.b_row, shape.batch, shape.b_batch);
  plan.a = turn_a ? make_layout(shape.type, shape.m, shape.k, shape.a_column, shape.batch, shape.a_batch)
                  : make_layout(shape.type, shape.k, shape.m, shape.a_row, shape.batch, shape.a_batch);
  plan.c = make_layout(shape.c_type, shape.n, shape.m, shape.c_row, shape.batch, shape.c_batch);
  set(plan.description, CUBLASLT_MATMUL_DESC_EPILOGUE, library_epilogue(shape.epilogue));
  // Of vectors and masks the library asks now only how they will be aligned.
  const void* like_them = static_cast<const std::byte*>(memory_.data()) + whole_vectors;
  if (has_vector(shape.epilogue)) {
    set(plan.description, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, cuda_type(shape.c_type));
    set(plan.description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, like_them);
  }
  if (has_mask(shape.epilogue)) {
    set(plan.description, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, relu_mask_words(shape.n) * 32);
    set(plan.description, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, like_them);
  }
}

void Products::choose(Plan& plan, const ProductShape& shape) const {
  cublasLtMatmulPreference_t created = nullptr;
  require(cublasLtMatmulPreferenceCreate(&created), "asking for an algorithm");
  const MatmulPreference preference(created);
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, library_memory);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, static_cast<std::uint32_t>(shape.b_alignment));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, static_cast<std::uint32_t>(shape.a_alignment));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, static_cast<std::uint32_t>(shape.c_alignment));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, static_cast<std::uint32_t>(shape.c_alignment));
  cublasLtMatmulHeuristicResult_t best{};
  int count = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(handle_.get(), plan.description.get(), plan.b.get(), plan.a.get(), plan.c.get(),
                                     plan.c.get(), preference.get(), 1, &best, &count);
  plan.found = status == CUBLAS_STATUS_SUCCESS && count == 1 && best.state == CUBLAS_STATUS_SUCCESS;
  plan.algorithm = best.algo;
  plan.waves = plan.found ? best.wavesCount : 0;
}

const Products::Plan& Products::plan_for(const ProductShape& shape) {
  const auto known = plans_.find(shape);
  if (known != plans_.end()) return known->second;
  Plan plan;
  describe(plan, shape);
  choose(plan, shape);
  if (plan.found && shape.epilogue == Epilogue::bias_gradient) {
    ProductShape bare = shape;
    bare.epilogue = Epilogue::none;
    plan.found = plan.waves >= least_share_of_waves * std::min(1.0f, plan_for(bare).waves);
  }
  if (plans_.size() >= most_plans) plans_.clear();
  return plans_.emplace(shape, std::move(plan)).first->second;
}

void Products::multiply(const Plan& plan, const ProductShape& shape, const ProductOperands& operands) const {
  const void* vector = vector_for_library(shape, operands);
  if (has_bias(shape.epilogue) && shape.c_type == DType::bf16) {
    cast(ConstTensor(operands.bias, {shape.n}, DType::f32), Tensor(const_cast<void*>(vector), {shape.n}, DType::bf16),
         stream_);
  }
  if (has_vector(shape.epilogue)) set(plan.description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, vector);
  if (has_mask(shape.epilogue)) {
    set(plan.description, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, operands.relu_mask);
  }
  const float beta = shape.accumulate ? 1.0f : 0.0f;
  require(cublasLtMatmul(handle_.get(), plan.description.get(), &operands.alpha, operands.b, plan.b.get(), operands.a,
                         plan.a.get(), &beta, operands.c, plan.c.get(), operands.c, plan.c.get(), &plan.algorithm,
                         memory_.data(), library_memory, stream_),
          "a matrix product");
}

const void* Products::vector_for_library(const ProductShape& shape, const ProductOperands& operands) const {
  if (has_bias(shape.epilogue) && shape.c_type == DType::bf16) {
    const bool fits = static_cast<std::size_t>(shape.n) * size_of(DType::bf16) <= bias_memory;
    return fits ? static_cast<const std::byte*>(memory_.data()) + library_memory : nullptr;
  }
  // The alignment is no part of a plan's key, so only whole vectors are given.
  const float* given = shape.epilogue == Epilogue::bias_gradient ? operands.bias_gradient : operands.bias;
  return aligned(given) ? given : nullptr;
}

bool Products::has(const ProductShape& shape, const ProductOperands& operands) {
  if (shape.m == 0 || shape.n == 0 || shape.k == 0 || shape.batch == 0) return false;
  if (shape.epilogue > Epilogue::bias_relu && !for_training_) return false;
  if (has_vector(shape.epilogue) && vector_for_library(shape, operands) == nullptr) return false;
  if (has_mask(shape.epilogue) && !aligned(operands.relu_mask)) return false;
  return plan_for(shape).found;
}

bool Products::run_fused(const ProductShape& shape, const ProductOperands& operands) {
  if (!has(shape, operands)) return false;
  multiply(plan_for(shape), shape, operands);
  return true;
}

void Products::run(const ProductShape& shape, const ProductOperands& operands) {
  if (shape.m == 0 || shape.n == 0 || shape.batch == 0 || run_fused(shape, operands)) return;
  if (shape.epilogue == Epilogue::none) return launch_plain_product(shape, operands, stream_);
  const bool bias = has_bias(shape.epilogue);
  ProductShape bare = shape;
  bare.epilogue = Epilogue::none;
  bare.accumulate |= bias;
  if (bias) launch_bias(shape, operands, stream_);
  run(bare, operands);
  if (shape.epilogue != Epilogue::bias) launch_relu(shape, operands, stream_);
}

}  // namespace babelring::cuda
