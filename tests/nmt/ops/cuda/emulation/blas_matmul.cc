#include "tests/nmt/ops/cuda/emulation/blas_matmul.h"

#include <cuda_bf16.h>

#include <cstdlib>
#include <vector>

namespace babelring::emulation {

bool aligned(const void* data, std::uint32_t to) {
  return reinterpret_cast<std::uintptr_t>(data) % to == 0;
}

std::uint32_t alignment_shown(const void* data) {
  const auto place = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(data) % 256 | 256);
  return place & (~place + 1);
}

bool fits(const Problem& p) {
  const bool turn_a = p.description.turn_a == CUBLAS_OP_T, turn_b = p.description.turn_b == CUBLAS_OP_T;
  const auto layout_fits = [](const cublasLtMatrixLayoutOpaque_t& m) {
    return m.rows > 0 && m.columns > 0 && static_cast<std::uint64_t>(m.column_stride) >= m.rows && m.batch > 0;
  };
  return layout_fits(p.a) && layout_fits(p.b) && layout_fits(p.c) && p.a.type == p.b.type && p.a.batch == p.c.batch &&
         p.b.batch == p.c.batch && (turn_a ? p.a.columns : p.a.rows) == p.c.rows &&
         (turn_b ? p.b.rows : p.b.columns) == p.c.columns && (turn_b ? p.b.columns : p.b.rows) == p.depth() &&
         (p.bias_bytes() == 0 || (p.description.bias != nullptr && aligned(p.description.bias, 16)));
}

bool has_algorithm(const Problem& p, const std::uint32_t* alignment) {
  if (*std::min_element(alignment, alignment + 3) < 4) return false;
  return p.bias_bytes() == 0 || p.description.bias_type == p.c.type;
}

namespace {

/// The library refuses this number of rows to algorithms that were chosen for another.
constexpr std::uint64_t refused_rows = 131;

}  // namespace

bool serves(const Choice& choice, const Problem& p) {
  const auto takes = [](std::uint64_t found, std::uint64_t chosen) {
    return found == chosen || (found < chosen && found != refused_rows);
  };
  return choice.rows == p.c.rows && takes(p.c.columns, choice.columns) && takes(p.depth(), choice.depth) &&
         (p.bias_bytes() == 0 || aligned(p.description.bias, choice.of_bias));
}

std::chrono::hours pretended_time(const Choice& choice) {
  const char* fastest = std::getenv("BABELRING_EMULATED_FASTEST");
  const bool slow = fastest != nullptr && choice.number != static_cast<std::uint32_t>(std::atoi(fastest));
  return std::chrono::hours(slow ? 1 : 0);
}

namespace {

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

/// The element of the result's row that has this sum.
float finish(const Problem& p, float value, std::uint64_t row) {
  if (p.has_bias()) value += load(p.description.bias, p.c.type, row);
  return p.has_relu() && !(value > 0) ? 0.0f : value;
}

}  // namespace

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
        store(finish(p, value, row), c, p.c.type, first + row);
      }
    }
  }
}

}  // namespace babelring::emulation
