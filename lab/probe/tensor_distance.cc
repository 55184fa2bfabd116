#include "lab/probe/tensor_distance.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
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
    case DType::int8:
      return moments_of<std::int8_t>(tensor);
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

namespace {

/// Maps the bits of a float to integers in the order of its values; +0 and -0 both to 0.
std::int64_t ordered(std::uint32_t bits, DType type) {
  const std::uint32_t sign = type == DType::bf16 ? 0x8000u : 0x80000000u;
  if (type == DType::i32) return static_cast<std::int32_t>(bits);
  const auto magnitude = static_cast<std::int64_t>(bits & (sign - 1));
  return (bits & sign) != 0 ? -magnitude : magnitude;
}

Result<Tolerance> add_limit(Tolerance tolerance, std::string_view limit) {
  double number = 0;
  const auto [end, error] = std::from_chars(limit.data(), limit.data() + limit.size(), number);
  const std::string_view unit(end, static_cast<std::size_t>(limit.data() + limit.size() - end));
  const bool known = unit == "ulp" || unit == "rel" || unit == "abs" || (unit.empty() && number == 0);
  if (error != std::errc() || !(number >= 0) || !std::isfinite(number) || !known) {
    return Error{fmt::format("expected 0 or limits such as 4ulp, 1e-5rel or 1e-6abs, found '{}'", limit)};
  }
  if (unit == "ulp") tolerance.ulp = static_cast<std::uint64_t>(std::min(number, 9e18));
  if (unit == "rel") tolerance.relative = number;
  if (unit == "abs") tolerance.absolute = number;
  return tolerance;
}

}  // namespace

ElementDistance distance_of(std::uint32_t a, std::uint32_t b, DType type) {
  const double first = value_of(a, type), second = value_of(b, type);
  if (a == b || first == second || (std::isnan(first) && std::isnan(second))) return {};
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (std::isnan(first) || std::isnan(second)) return {infinity, infinity, std::numeric_limits<std::uint64_t>::max()};
  const double apart = std::abs(first - second), scale = std::max(std::abs(first), std::abs(second));
  return {.absolute = apart,
          .relative = std::isinf(scale) ? infinity : apart / scale,
          .ulp = static_cast<std::uint64_t>(std::abs(ordered(a, type) - ordered(b, type)))};
}

ElementDistance distance_of(std::uint32_t a, DType type_a, std::uint32_t b, DType type_b) {
  if (type_a == type_b) return distance_of(a, b, type_a);
  constexpr int f32_bits_more = 16;
  if (type_a == DType::i32 || type_b == DType::i32) {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    if (value_of(a, type_a) == value_of(b, type_b)) return {};
    return {infinity, infinity, std::numeric_limits<std::uint64_t>::max()};
  }
  const auto as_f32 = [](std::uint32_t bits, DType type) { return type == DType::bf16 ? bits << f32_bits_more : bits; };
  ElementDistance distance = distance_of(as_f32(a, type_a), as_f32(b, type_b), DType::f32);
  constexpr std::uint64_t steps = std::uint64_t{1} << f32_bits_more;
  if (std::isfinite(distance.absolute)) distance.ulp = (distance.ulp + steps - 1) / steps;
  return distance;
}

TensorDistance distance_of(std::span<const std::uint32_t> a, DType type_a, std::span<const std::uint32_t> b,
                           DType type_b) {
  TensorDistance total{.compared = static_cast<std::int64_t>(std::min(a.size(), b.size()))};
  for (std::size_t i = 0; i < static_cast<std::size_t>(total.compared); ++i) {
    if (type_a == type_b && a[i] == b[i]) continue;
    const ElementDistance one = distance_of(a[i], type_a, b[i], type_b);
    // Elements of one type differ if their bits do.
    if (type_a != type_b && one.ulp == 0) continue;
    const auto at = static_cast<std::int64_t>(i);
    ++total.different;
    if (total.first < 0) total.first = at;
    if (total.absolute.at < 0 || one.absolute > total.worst.absolute) total.absolute = {at, one};
    if (total.relative.at < 0 || one.relative > total.worst.relative) total.relative = {at, one};
    if (total.ulp.at < 0 || one.ulp > total.worst.ulp) total.ulp = {at, one};
    total.worst = {.absolute = std::max(total.worst.absolute, one.absolute),
                   .relative = std::max(total.worst.relative, one.relative),
                   .ulp = std::max(total.worst.ulp, one.ulp)};
  }
  return total;
}

Result<Tolerance> Tolerance::parse(std::string_view text) {
  Tolerance tolerance;
  while (true) {
    const std::size_t comma = std::min(text.find(','), text.size());
    Result<Tolerance> more = add_limit(tolerance, text.substr(0, comma));
    if (!more) return more;
    tolerance = *more;
    if (comma == text.size()) return tolerance;
    text.remove_prefix(comma + 1);
  }
}

bool Tolerance::allows(const TensorDistance& distance) const {
  if (exact()) return distance.different == 0;
  return (!ulp || distance.worst.ulp <= *ulp) && (!relative || distance.worst.relative <= *relative) &&
         (!absolute || distance.worst.absolute <= *absolute);
}

}  // namespace babelring
