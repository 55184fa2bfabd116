#include <cublasLt.h>
#include <cuda_bf16.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <numeric>
#include <vector>

#include "tests/nmt/ops/cuda/emulation/device.h"

/// cuBLASLt, multiplying with plain loops. It is as strict as the library's documents: descriptions that do not fit
/// each other, other alignments than were promised when the algorithm was chosen, and host memory are refused.
struct cublasLtContext {};
struct cublasLtMatmulDescOpaque_t {
  std::int32_t turn_a = CUBLAS_OP_N, turn_b = CUBLAS_OP_N;
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void* bias = nullptr;  // or where its gradient goes
  std::int32_t bias_type = -1;
  void* mask = nullptr;
  std::int64_t mask_stride = 0;  // bits
};
struct cublasLtMatrixLayoutOpaque_t {
  cudaDataType_t type = CUDA_R_32F;
  std::uint64_t rows = 0, columns = 0;
  std::int64_t column_stride = 0;
  std::int32_t batch = 1;
  std::int64_t batch_stride = 0;

  std::size_t element() const { return type == CUDA_R_16BF ? 2 : 4; }
  /// From the first element to behind the last.
  std::size_t bytes() const {
    const auto strides = static_cast<std::uint64_t>((batch - 1) * batch_stride) +
                         (columns - 1) * static_cast<std::uint64_t>(column_stride);
    return (strides + rows) * element();
  }
};
struct cublasLtMatmulPreferenceOpaque_t {
  std::uint64_t workspace = 0;
  std::uint32_t reductions = 7;
  std::uint32_t alignment[4] = {256, 256, 256, 256};  // of a, b, c and d
};

namespace babelring::emulation {

namespace {

constexpr int proposals = 3;
constexpr std::uint64_t refused_rows = 131;

/// What an algorithm is chosen for; it is held against the call.
struct Choice {
  std::uint32_t alignment[4];
  std::uint64_t workspace;
  std::uint64_t rows, columns, depth;
  std::uint32_t number;  // of the proposals: it sums the depth in number + 1 parts
  std::uint32_t of_vector, of_mask;
};
static_assert(sizeof(Choice) <= sizeof(cublasLtMatmulAlgo_t));

struct Problem {
  cublasLtMatmulDescOpaque_t description;
  cublasLtMatrixLayoutOpaque_t a, b, c;
  float alpha, beta;

  std::uint64_t depth() const { return description.turn_a == CUBLAS_OP_T ? a.rows : a.columns; }
  bool is_any_of(std::initializer_list<cublasLtEpilogue_t> epilogues) const {
    return std::find(epilogues.begin(), epilogues.end(), description.epilogue) != epilogues.end();
  }
  bool writes_mask() const { return is_any_of({CUBLASLT_EPILOGUE_RELU_AUX_BIAS}); }
  bool reads_mask() const { return is_any_of({CUBLASLT_EPILOGUE_DRELU}); }
  bool sums_b() const { return is_any_of({CUBLASLT_EPILOGUE_BGRADB}); }
  bool has_bias() const { return is_any_of({CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_RELU_BIAS}) || writes_mask(); }
  bool has_relu() const { return is_any_of({CUBLASLT_EPILOGUE_RELU, CUBLASLT_EPILOGUE_RELU_BIAS}) || writes_mask(); }

  /// Of the bias or its gradient.
  std::uint64_t vector_bytes() const {
    return has_bias() ? c.rows * c.element() : sums_b() ? c.columns * c.element() : 0;
  }
  std::uint64_t mask_bytes() const {
    return writes_mask() || reads_mask() ? c.columns * static_cast<std::uint64_t>(description.mask_stride) / 8 : 0;
  }
  /// How much of a device it fills: a matmul for each element, and as many for each part of its depth, but what sums B
  /// goes through the depth in one.
  float waves() const { return static_cast<float>(c.rows * c.columns * (sums_b() ? 1 : 1 + depth() / 32)) / 2048; }
};

bool aligned(const void* data, std::uint32_t to) {
  return reinterpret_cast<std::uintptr_t>(data) % to == 0;
}

/// As the library takes it from an address that it is shown: 256 at most.
std::uint32_t alignment_shown(const void* data) {
  const auto place = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(data) % 256 | 256);
  return place & (~place + 1);
}

/// Vectors and masks are there and aligned, whoever reads or writes them; a mask's columns are whole 128 bits.
bool epilogue_fits(const Problem& p) {
  const cublasLtMatmulDescOpaque_t& d = p.description;
  if (p.vector_bytes() > 0 && (d.bias == nullptr || !aligned(d.bias, 16))) return false;
  if (!p.writes_mask() && !p.reads_mask()) return true;
  return d.mask != nullptr && aligned(d.mask, 16) && d.mask_stride % 128 == 0 &&
         static_cast<std::uint64_t>(d.mask_stride) >= p.c.rows && p.c.batch == 1;
}

bool fits(const Problem& p) {
  const bool turn_a = p.description.turn_a == CUBLAS_OP_T, turn_b = p.description.turn_b == CUBLAS_OP_T;
  const auto layout_fits = [](const cublasLtMatrixLayoutOpaque_t& m) {
    return m.rows > 0 && m.columns > 0 && static_cast<std::uint64_t>(m.column_stride) >= m.rows && m.batch > 0;
  };
  return layout_fits(p.a) && layout_fits(p.b) && layout_fits(p.c) && p.a.type == p.b.type && p.a.batch == p.c.batch &&
         p.b.batch == p.c.batch && (turn_a ? p.a.columns : p.a.rows) == p.c.rows &&
         (turn_b ? p.b.rows : p.b.columns) == p.c.columns && (turn_b ? p.b.columns : p.b.rows) == p.depth() &&
         epilogue_fits(p);
}

/// So that the kernels which stand in for the library are run as well, it has no algorithm for odd addresses, none that
/// reads a mask over an odd depth or sums B beside odd rows, and takes a bias only in the result's own type.
bool has_algorithm(const Problem& p, const std::uint32_t* alignment) {
  if (*std::min_element(alignment, alignment + 3) < 4) return false;
  if (p.reads_mask() && p.depth() % 2 != 0) return false;
  if (p.sums_b() && p.c.rows % 2 != 0) return false;
  return p.vector_bytes() == 0 || p.description.bias_type == p.c.type;
}

/// Whether an algorithm takes a problem that may have fewer columns or less depth than the one it was chosen for. Of
/// some sizes it refuses to.
bool serves(const Choice& choice, const Problem& p) {
  const auto takes = [](std::uint64_t found, std::uint64_t chosen) {
    return found == chosen || (found < chosen && found != refused_rows);
  };
  return choice.rows == p.c.rows && takes(p.c.columns, choice.columns) && takes(p.depth(), choice.depth) &&
         (p.vector_bytes() == 0 || aligned(p.description.bias, choice.of_vector)) &&
         (p.mask_bytes() == 0 || aligned(p.description.mask, choice.of_mask));
}

/// With BABELRING_EMULATED_FASTEST=N all proposals but the one of this number take an hour, as events tell it; with
/// BABELRING_EMULATED_SLOW_SUMS all that sum B.
std::chrono::hours pretended_time(const Choice& choice, const Problem& p) {
  const char* fastest = std::getenv("BABELRING_EMULATED_FASTEST");
  const bool slow = fastest != nullptr && choice.number != static_cast<std::uint32_t>(std::atoi(fastest));
  const bool sums_slowly = p.sums_b() && std::getenv("BABELRING_EMULATED_SLOW_SUMS") != nullptr;
  return std::chrono::hours(slow || sums_slowly ? 1 : 0);
}

float load(const void* data, cudaDataType_t type, std::uint64_t at) {
  if (type == CUDA_R_32F) return static_cast<const float*>(data)[at];
  return __bfloat162float(static_cast<const __nv_bfloat16*>(data)[at]);
}

void store(float value, void* data, cudaDataType_t type, std::uint64_t at) {
  if (type == CUDA_R_32F) {
    static_cast<float*>(data)[at] = value;
  } else {
    static_cast<__nv_bfloat16*>(data)[at] = __float2bfloat16_rn(value);
  }
}

/// Column-major, turned as the matmul wants it.
std::vector<float> operand(const void* data, const cublasLtMatrixLayoutOpaque_t& layout, bool turn,
                           std::uint64_t batch) {
  std::vector<float> values(layout.rows * layout.columns);
  const std::uint64_t first = batch * static_cast<std::uint64_t>(layout.batch_stride);
  for (std::uint64_t column = 0; column < layout.columns; ++column) {
    for (std::uint64_t row = 0; row < layout.rows; ++row) {
      const std::uint64_t from = first + column * static_cast<std::uint64_t>(layout.column_stride) + row;
      values[turn ? row * layout.columns + column : column * layout.rows + row] = load(data, layout.type, from);
    }
  }
  return values;
}

/// A bit of a column's mask, in an order that nobody could guess: what it looks like is the library's own affair.
void put_bit(const Problem& p, std::uint64_t column, std::uint64_t row, bool bit) {
  const std::uint64_t at = column * static_cast<std::uint64_t>(p.description.mask_stride) + (row ^ 0x55);
  auto& byte = static_cast<unsigned char*>(p.description.mask)[at / 8];
  const auto place = static_cast<unsigned char>(1U << at % 8);
  byte = static_cast<unsigned char>(bit ? byte & ~place : byte | place);
}
bool bit_at(const Problem& p, std::uint64_t column, std::uint64_t row) {
  const std::uint64_t at = column * static_cast<std::uint64_t>(p.description.mask_stride) + (row ^ 0x55);
  return (static_cast<const unsigned char*>(p.description.mask)[at / 8] >> at % 8 & 1U) == 0;
}

/// The element of the result that has this sum, and its bit of a mask.
float finish(const Problem& p, float value, std::uint64_t column, std::uint64_t row) {
  if (p.has_bias()) value += load(p.description.bias, p.c.type, row);
  if (p.writes_mask()) put_bit(p, column, row, value > 0);
  const bool cut = p.has_relu() ? !(value > 0) : p.reads_mask() && !bit_at(p, column, row);
  return cut ? 0.0f : value;
}

void multiply(const Problem& p, std::uint64_t parts, const void* a, const void* b, void* c) {
  const std::uint64_t rows = p.c.rows, depth = p.depth();
  std::vector<float> sums(rows), of_part(rows);
  for (std::uint64_t batch = 0; batch < static_cast<std::uint64_t>(p.c.batch); ++batch) {
    const std::vector<float> of_a = operand(a, p.a, p.description.turn_a == CUBLAS_OP_T, batch);
    const std::vector<float> of_b = operand(b, p.b, p.description.turn_b == CUBLAS_OP_T, batch);
    for (std::uint64_t column = 0; column < p.c.columns; ++column) {
      std::fill(sums.begin(), sums.end(), 0.0f);
      for (std::uint64_t part = 0; part < parts; ++part) {
        std::fill(of_part.begin(), of_part.end(), 0.0f);
        for (std::uint64_t l = part; l < depth; l += parts) {
          const float factor = of_b[column * depth + l];
          const float* from = &of_a[l * rows];
          for (std::uint64_t row = 0; row < rows; ++row) of_part[row] += from[row] * factor;
        }
        for (std::uint64_t row = 0; row < rows; ++row) sums[row] += of_part[row];
      }
      const std::uint64_t first =
          batch * static_cast<std::uint64_t>(p.c.batch_stride) + column * static_cast<std::uint64_t>(p.c.column_stride);
      for (std::uint64_t row = 0; row < rows; ++row) {
        float value = p.alpha * sums[row];
        if (p.beta != 0) value += p.beta * load(c, p.c.type, first + row);
        store(finish(p, value, column, row), c, p.c.type, first + row);
      }
      if (p.sums_b()) {
        const auto from = of_b.begin() + static_cast<std::ptrdiff_t>(column * depth);
        store(std::accumulate(from, from + static_cast<std::ptrdiff_t>(depth), 0.0f), p.description.bias, p.c.type,
              column);
      }
    }
  }
}

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
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      return emulation::take(description->mask, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      return emulation::take(description->mask_stride, value, bytes);
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
                           .of_vector = emulation::alignment_shown(description->bias),
                           .of_mask = emulation::alignment_shown(description->mask)};
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
      (problem.vector_bytes() == 0 || emulation::on_device(problem.description.bias, problem.vector_bytes())) &&
      (problem.mask_bytes() == 0 || emulation::on_device(problem.description.mask, problem.mask_bytes()));
  if (c != d || !chosen || !there || !emulation::fits(problem)) return CUBLAS_STATUS_INVALID_VALUE;
  emulation::enqueue(stream, [=] {
    emulation::device().pretended += emulation::pretended_time(choice, problem);
    emulation::multiply(problem, choice.number + 1, a, b, d);
  });
  return CUBLAS_STATUS_SUCCESS;
}
