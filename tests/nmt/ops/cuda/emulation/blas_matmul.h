#pragma once

#include <cublasLt.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

/// The objects behind cuBLASLt's handles.
struct cublasLtContext {};
struct cublasLtMatmulDescOpaque_t {
  std::int32_t turn_a = CUBLAS_OP_N, turn_b = CUBLAS_OP_N;
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void* bias = nullptr;
  std::int32_t bias_type = -1;
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

/// The number of algorithms that are proposed for each matmul.
inline constexpr int proposals = 3;

/// The matmul for which an algorithm is chosen, compared with the call.
struct Choice {
  std::uint32_t alignment[4];
  std::uint64_t workspace;
  std::uint64_t rows, columns, depth;
  std::uint32_t number;  // of the proposals: it sums the depth in number + 1 parts
  std::uint32_t of_bias;
};
static_assert(sizeof(Choice) <= sizeof(cublasLtMatmulAlgo_t));

/// A matmul as a call describes it.
struct Problem {
  cublasLtMatmulDescOpaque_t description;
  cublasLtMatrixLayoutOpaque_t a, b, c;
  float alpha, beta;

  std::uint64_t depth() const { return description.turn_a == CUBLAS_OP_T ? a.rows : a.columns; }
  bool is_any_of(std::initializer_list<cublasLtEpilogue_t> epilogues) const {
    return std::find(epilogues.begin(), epilogues.end(), description.epilogue) != epilogues.end();
  }
  bool has_bias() const { return is_any_of({CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_RELU_BIAS}); }
  bool has_relu() const { return is_any_of({CUBLASLT_EPILOGUE_RELU, CUBLASLT_EPILOGUE_RELU_BIAS}); }

  std::uint64_t bias_bytes() const { return has_bias() ? c.rows * c.element() : 0; }
  /// How much of a device it fills: a multiplication for each element, and as many for each part of its depth.
  float waves() const { return static_cast<float>(c.rows * c.columns * (1 + depth() / 32)) / 2048; }
};

bool aligned(const void* data, std::uint32_t to);
/// The alignment that the library takes from an address: 256 at most.
std::uint32_t alignment_shown(const void* data);
/// Whether the descriptions fit each other.
bool fits(const Problem& p);
/// Whether there is an algorithm. There is none for odd addresses and none with a bias of another type than the
/// result's, so that tests also run the kernels that replace the library.
bool has_algorithm(const Problem& p, const std::uint32_t* alignment);
/// Whether an algorithm takes a problem, which may have fewer columns or less depth than the algorithm was chosen for.
/// Some sizes are refused.
bool serves(const Choice& choice, const Problem& p);
/// The time that events report. With BABELRING_EMULATED_FASTEST=N all proposals but number N take an hour.
std::chrono::hours pretended_time(const Choice& choice);
/// C = alpha A B + beta C with the epilogue. Sums the depth in `parts` parts.
void multiply(const Problem& p, std::uint64_t parts, const void* a, const void* b, void* c);

}  // namespace babelring::emulation
