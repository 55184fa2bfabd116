#include "nmt/ops/cuda/matmul_plan.h"

#include <fmt/format.h>

#include <algorithm>

namespace babelring::cuda {

namespace {

cudaDataType_t cuda_type(DType type) {
  return type == DType::bf16 ? CUDA_R_16BF : CUDA_R_32F;
}

template <class Value>
void set(const MatmulDescription& description, cublasLtMatmulDescAttributes_t attribute, const Value& value) {
  require(cublasLtMatmulDescSetAttribute(description.get(), attribute, &value, sizeof value), "describing a matmul");
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
    case Epilogue::none:
      break;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

std::uint32_t setting(const cublasLtMatmulAlgo_t& settings, cublasLtMatmulAlgoConfigAttributes_t attribute,
                      std::size_t bytes) {
  std::uint32_t value = 0;
  std::size_t written = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoConfigGetAttribute(&settings, attribute, &value, bytes, &written);
  return status == CUBLAS_STATUS_SUCCESS ? value : 0;
}

}  // namespace

bool has_bias(Epilogue epilogue) {
  return epilogue == Epilogue::bias || epilogue == Epilogue::bias_relu;
}

std::string text_of(const cublasLtMatmulAlgo_t& settings) {
  return fmt::format("algorithm {}, tile {}, stages {}, splits {}, cluster {}",
                     setting(settings, CUBLASLT_ALGO_CONFIG_ID, 4), setting(settings, CUBLASLT_ALGO_CONFIG_TILE_ID, 4),
                     setting(settings, CUBLASLT_ALGO_CONFIG_STAGES_ID, 4),
                     setting(settings, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, 4),
                     setting(settings, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, 2));
}

/// Row-major C = A B is the library's C^T = B^T A^T: its first operand is our B, its second our A.
MatmulPlan::MatmulPlan(const MatmulLibrary& library, const MatmulShape& shape) : library_(library), shape_(shape) {
  cublasLtMatmulDesc_t description = nullptr;
  require(cublasLtMatmulDescCreate(&description, CUBLAS_COMPUTE_32F, CUDA_R_32F), "describing a matmul");
  description_ = MatmulDescription(description);
  const bool turn_b = shape.b_column != 1, turn_a = shape.a_column != 1;
  set(description_, CUBLASLT_MATMUL_DESC_TRANSA, turn_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(description_, CUBLASLT_MATMUL_DESC_TRANSB, turn_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  b_ = turn_b ? make_layout(shape.type, shape.k, shape.n, shape.b_column, shape.batch, shape.b_batch)
              : make_layout(shape.type, shape.n, shape.k, shape.b_row, shape.batch, shape.b_batch);
  a_ = turn_a ? make_layout(shape.type, shape.m, shape.k, shape.a_column, shape.batch, shape.a_batch)
              : make_layout(shape.type, shape.k, shape.m, shape.a_row, shape.batch, shape.a_batch);
  c_ = make_layout(shape.c_type, shape.n, shape.m, shape.c_row, shape.batch, shape.c_batch);
  describe_epilogue();
}

void MatmulPlan::describe_epilogue() const {
  set(description_, CUBLASLT_MATMUL_DESC_EPILOGUE, library_epilogue(shape_.epilogue));
  if (!has_bias(shape_.epilogue)) return;
  // At this point the library uses only the alignment of the bias.
  const auto* memory = static_cast<const std::byte*>(library_.memory);
  const void* like_it = shape_.bias_alignment < 256 ? memory + shape_.bias_alignment : memory;
  set(description_, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, cuda_type(shape_.c_type));
  set(description_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, like_it);
}

std::vector<MatmulAlgorithm> MatmulPlan::propose(int count) const {
  cublasLtMatmulPreference_t created = nullptr;
  require(cublasLtMatmulPreferenceCreate(&created), "asking for an algorithm");
  const MatmulPreference preference(created);
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(library_.memory_bytes));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, static_cast<std::uint32_t>(shape_.b_alignment));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, static_cast<std::uint32_t>(shape_.a_alignment));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, static_cast<std::uint32_t>(shape_.c_alignment));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, static_cast<std::uint32_t>(shape_.c_alignment));
  if (shape_.c_type == DType::bf16) {
    // Parts of a split depth must not be rounded to bf16 before they are added.
    set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
        static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  }
  std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<std::size_t>(count));
  int found = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(library_.handle, description_.get(), b_.get(), a_.get(), c_.get(), c_.get(),
                                     preference.get(), count, results.data(), &found);
  std::vector<MatmulAlgorithm> proposed;
  if (status != CUBLAS_STATUS_SUCCESS) return proposed;
  results.resize(static_cast<std::size_t>(found));
  for (const cublasLtMatmulHeuristicResult_t& result : results) {
    if (result.state == CUBLAS_STATUS_SUCCESS) proposed.push_back({result.algo, result.wavesCount});
  }
  return proposed;
}

bool MatmulPlan::accepts(MatmulAlgorithm& algorithm) const {
  cublasLtMatmulHeuristicResult_t result{};
  const cublasStatus_t status = cublasLtMatmulAlgoCheck(library_.handle, description_.get(), b_.get(), a_.get(),
                                                        c_.get(), c_.get(), &algorithm.settings, &result);
  algorithm.waves = result.wavesCount;
  return status == CUBLAS_STATUS_SUCCESS && result.workspaceSize <= library_.memory_bytes;
}

/// Rows of a row-major matrix are the library's columns, but those of a transposed vector, which is one column.
void MatmulPlan::set_varying_extent(const MatmulShape& actual) {
  const bool batches = shape_.varying == Varying::batch, of_k = shape_.varying == Varying::k;
  const std::int64_t extent = batches ? actual.batch : of_k ? actual.k : actual.m;
  if (shape_.varying == Varying::none || extent == described_ || (batches && shape_.batch == 1)) return;
  if (batches) {
    for (const MatrixLayout* layout : {&a_, &b_, &c_}) {
      set(*layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<std::int32_t>(extent));
    }
  } else {
    const bool vector = of_k && shape_.a_column == 1;
    set(a_, vector ? CUBLASLT_MATRIX_LAYOUT_ROWS : CUBLASLT_MATRIX_LAYOUT_COLS, static_cast<std::uint64_t>(extent));
    set(of_k ? b_ : c_, CUBLASLT_MATRIX_LAYOUT_COLS, static_cast<std::uint64_t>(extent));
  }
  described_ = extent;
}

cublasStatus_t MatmulPlan::multiply(const MatmulAlgorithm& algorithm, const MatmulShape& actual,
                                    const MatmulOperands& operands, const void* bias, void* c) {
  set_varying_extent(actual);
  if (has_bias(shape_.epilogue)) set(description_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  const float beta = shape_.accumulate ? 1.0f : 0.0f;
  return cublasLtMatmul(library_.handle, description_.get(), &operands.alpha, operands.b, b_.get(), operands.a,
                        a_.get(), &beta, c, c_.get(), c, c_.get(), &algorithm.settings, library_.memory,
                        library_.memory_bytes, library_.stream);
}

}  // namespace babelring::cuda
