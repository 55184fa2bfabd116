#include <cublasLt.h>

#include <algorithm>
#include <cstring>

#include "tests/nmt/ops/cuda/emulation/blas_matmul.h"
#include "tests/nmt/ops/cuda/emulation/device.h"

/// cuBLASLt's functions over plain loops (blas_matmul.h). They are as strict as the library's documents: descriptions
/// that do not fit each other, other alignments than were promised when the algorithm was chosen, and host memory are
/// refused.
namespace babelring::emulation {

namespace {

template <class Value>
cublasStatus_t take(Value& to, const void* value, std::size_t bytes) {
  if (bytes != sizeof to) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&to, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

template <class Handle, class... Values>
cublasStatus_t make(Handle* handle, Values... values) {
  *handle = new std::remove_pointer_t<Handle>{values...};
  return CUBLAS_STATUS_SUCCESS;
}
template <class Handle>
cublasStatus_t destroy(Handle handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

}  // namespace babelring::emulation

namespace emulation = babelring::emulation;

const char* cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
  }
  return "?";
}
std::size_t cublasLtGetVersion() {
  return 130100;
}
cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  return emulation::make(handle);
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  return emulation::destroy(handle);
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* description, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  if (compute != CUBLAS_COMPUTE_32F || scale != CUDA_R_32F) return CUBLAS_STATUS_INVALID_VALUE;
  return emulation::make(description);
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) {
  return emulation::destroy(description);
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description,
                                              cublasLtMatmulDescAttributes_t attribute, const void* value,
                                              std::size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return emulation::take(description->turn_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return emulation::take(description->turn_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return emulation::take(description->epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return emulation::take(description->bias, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      return emulation::take(description->bias_type, value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType_t type, std::uint64_t rows,
                                          std::uint64_t columns, std::int64_t column_stride) {
  return emulation::make(layout, type, rows, columns, column_stride);
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  return emulation::destroy(layout);
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute, const void* value,
                                                std::size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_ROWS:
      return emulation::take(layout->rows, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_COLS:
      return emulation::take(layout->columns, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
      return emulation::take(layout->batch, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
      return emulation::take(layout->batch_stride, value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  return emulation::make(preference);
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return emulation::destroy(preference);
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void* value,
                                                    std::size_t bytes) {
  if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
    return emulation::take(preference->workspace, value, bytes);
  if (attribute == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK)
    return emulation::take(preference->reductions, value, bytes);
  return emulation::take(preference->alignment[attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], value, bytes);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t description,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t preference, int most,
                                              cublasLtMatmulHeuristicResult_t* results, int* count) {
  const emulation::Problem problem{*description, *a, *b, *c, 1, 0};
  *count = 0;
  if (most < 1 || !emulation::fits(problem)) return CUBLAS_STATUS_INVALID_VALUE;
  if (!emulation::has_algorithm(problem, preference->alignment)) return CUBLAS_STATUS_NOT_SUPPORTED;
  emulation::Choice choice{.workspace = preference->workspace,
                           .rows = c->rows,
                           .columns = c->columns,
                           .depth = problem.depth(),
                           .of_bias = emulation::alignment_shown(description->bias)};
  std::copy_n(preference->alignment, 4, choice.alignment);
  for (; *count < std::min(most, emulation::proposals); ++*count) {
    choice.number = static_cast<std::uint32_t>(*count);
    cublasLtMatmulHeuristicResult_t& result = results[*count];
    result = {.workspaceSize = preference->workspace, .state = CUBLAS_STATUS_SUCCESS, .wavesCount = problem.waves()};
    std::memcpy(&result.algo, &choice, sizeof choice);
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t description, cublasLtMatrixLayout_t a,
                                       cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t,
                                       const cublasLtMatmulAlgo_t* algorithm, cublasLtMatmulHeuristicResult_t* result) {
  const emulation::Problem problem{*description, *a, *b, *c, 1, 0};
  emulation::Choice choice{};
  std::memcpy(&choice, algorithm, sizeof choice);
  if (!emulation::fits(problem) || !emulation::serves(choice, problem)) return CUBLAS_STATUS_NOT_SUPPORTED;
  *result = {.workspaceSize = choice.workspace, .state = CUBLAS_STATUS_SUCCESS, .wavesCount = problem.waves()};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* algorithm,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute, void* value,
                                                    std::size_t bytes, std::size_t* written) {
  const bool is_cluster = attribute == CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID;
  if (bytes != (is_cluster ? 2 : 4)) return CUBLAS_STATUS_INVALID_VALUE;
  emulation::Choice choice{};
  std::memcpy(&choice, algorithm, sizeof choice);
  const std::uint32_t found = attribute == CUBLASLT_ALGO_CONFIG_SPLITK_NUM ? choice.number + 1 : 0;
  std::memcpy(value, &found, bytes);
  *written = bytes;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t description, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                              const void* beta, const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t, const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              std::size_t workspace_bytes, cudaStream_t stream) {
  const emulation::Problem problem{*description,
                                   *a_layout,
                                   *b_layout,
                                   *c_layout,
                                   *static_cast<const float*>(alpha),
                                   *static_cast<const float*>(beta)};
  emulation::Choice choice{};
  std::memcpy(&choice, algorithm, sizeof choice);
  const bool chosen = emulation::serves(choice, problem) && choice.workspace <= workspace_bytes &&
                      emulation::aligned(a, choice.alignment[0]) && emulation::aligned(b, choice.alignment[1]) &&
                      emulation::aligned(c, choice.alignment[2]) && emulation::aligned(d, choice.alignment[3]);
  const bool there =
      emulation::on_device(a, problem.a.bytes()) && emulation::on_device(b, problem.b.bytes()) &&
      emulation::on_device(d, problem.c.bytes()) && emulation::on_device(workspace, choice.workspace) &&
      (problem.bias_bytes() == 0 || emulation::on_device(problem.description.bias, problem.bias_bytes()));
  if (c != d || !chosen || !there || !emulation::fits(problem)) return CUBLAS_STATUS_INVALID_VALUE;
  emulation::enqueue(stream, [=] {
    emulation::device().pretended += emulation::pretended_time(choice);
    emulation::multiply(problem, choice.number + 1, a, b, d);
  });
  return CUBLAS_STATUS_SUCCESS;
}
