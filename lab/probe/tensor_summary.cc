#include "lab/probe/tensor_summary.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/digest.h"
#include "nmt/core/random.h"

namespace babelring {

namespace {

/// Adds up statistics of finite elements.
struct Moments {
  double min = std::numeric_limits<double>::infinity(), max = -min, sum = 0, squares = 0;
  std::int64_t zeros = 0, finite = 0;

  template <class Element>
  void add(const Element* row, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      const auto value = static_cast<double>(static_cast<float>(row[i]));
      if (!std::isfinite(value)) continue;
      min = std::min(min, value);
      max = std::max(max, value);
      sum += value;
      squares += value * value;
      zeros += value == 0 ? 1 : 0;
      ++finite;
    }
  }
};

template <class Element>
Moments moments_of(const ConstTensor& tensor) {
  Moments moments;
  for (std::int64_t row = 0; row < tensor.rows(); ++row) {
    moments.add(tensor.as<Element>() + row * tensor.row_stride, tensor.columns());
  }
  return moments;
}

Moments moments_of(const ConstTensor& tensor) {
  switch (tensor.dtype) {
    case DType::bf16:
      return moments_of<BFloat16>(tensor);
    case DType::i32:
      return moments_of<std::int32_t>(tensor);
    case DType::f32:
      break;
  }
  return moments_of<float>(tensor);
}

}  // namespace

std::vector<std::int64_t> sampled_places(std::int64_t elements) {
  constexpr std::int64_t max = TensorSummary::max_elements;
  std::vector<std::int64_t> places;
  if (elements <= max) {
    for (std::int64_t i = 0; i < elements; ++i) places.push_back(i);
    return places;
  }
  // One place in each of 64 equal parts, so that every region of the tensor is seen.
  for (std::int64_t part = 0; part < max; ++part) {
    const std::int64_t begin = part * elements / max, end = (part + 1) * elements / max;
    const std::uint64_t random = mix64(static_cast<std::uint64_t>(elements) ^ mix64(static_cast<std::uint64_t>(part)));
    places.push_back(begin + static_cast<std::int64_t>(random % static_cast<std::uint64_t>(end - begin)));
  }
  places.front() = 0;
  places.back() = elements - 1;
  return places;
}

TensorSummary summarize(const ConstTensor& tensor) {
  TensorSummary summary;
  const std::int64_t elements = tensor.shape.elements();
  if (elements == 0) {
    summary.sha256 = sha256_hex("");
    return summary;
  }
  const std::size_t size = size_of(tensor.dtype);
  Sha256 digest;
  if (tensor.contiguous()) {
    digest.add(tensor.data, tensor.bytes());
  } else {
    const auto row_bytes = static_cast<std::size_t>(tensor.columns()) * size;
    for (std::int64_t row = 0; row < tensor.rows(); ++row) {
      digest.add(tensor.as<char>() + static_cast<std::size_t>(row * tensor.row_stride) * size, row_bytes);
    }
  }
  summary.sha256 = digest.hex();
  const Moments moments = moments_of(tensor);
  summary.zeros = moments.zeros;
  summary.non_finite = elements - moments.finite;
  if (moments.finite > 0) {
    const auto count = static_cast<double>(moments.finite);
    summary.min = moments.min;
    summary.max = moments.max;
    summary.absmax = std::max(std::abs(moments.min), std::abs(moments.max));
    summary.mean = moments.sum / count;
    summary.rms = std::sqrt(moments.squares / count);
  }
  for (const std::int64_t place : sampled_places(elements)) {
    const std::int64_t at = place / tensor.columns() * tensor.row_stride + place % tensor.columns();
    summary.bits.push_back(tensor.dtype == DType::bf16 ? tensor.as<std::uint16_t>()[at]
                                                       : tensor.as<std::uint32_t>()[at]);
  }
  return summary;
}

double value_of(std::uint32_t bits, DType type) {
  if (type == DType::i32) return static_cast<double>(static_cast<std::int32_t>(bits));
  return static_cast<double>(std::bit_cast<float>(type == DType::bf16 ? bits << 16 : bits));
}

}  // namespace babelring
