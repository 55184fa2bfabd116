#include "lab/backends/comparing_backend.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "lab/probe/tensor_summary.h"
#include "nmt/ops/staged_backend.h"

namespace babelring {

namespace {

/// The bits of a tensor's elements, in row-major order.
std::vector<std::uint32_t> element_bits(const ConstTensor& tensor) {
  std::vector<std::uint32_t> bits;
  bits.reserve(static_cast<std::size_t>(tensor.shape.elements()));
  for (std::int64_t row = 0; row < tensor.rows(); ++row) {
    for (std::int64_t column = 0; column < tensor.columns(); ++column) {
      const std::int64_t at = row * tensor.row_stride + column;
      bits.push_back(tensor.dtype == DType::bf16 ? tensor.as<std::uint16_t>()[at] : tensor.as<std::uint32_t>()[at]);
    }
  }
  return bits;
}

double largest_magnitude(const std::vector<std::uint32_t>& bits, DType dtype) {
  double largest = 0;
  for (const std::uint32_t element : bits) {
    const double magnitude = std::abs(value_of(element, dtype));
    if (std::isfinite(magnitude)) largest = std::max(largest, magnitude);
  }
  return largest;
}

}  // namespace

ComparingBackend::ComparingBackend(std::unique_ptr<Backend> a, std::unique_ptr<Backend> b)
    : a_(std::move(a)), b_(b->host_memory() ? std::move(b) : make_staged_backend(std::move(b))) {}

void ComparingBackend::upload(const void* host, Tensor to) {
  if (to.bytes() > 0) std::memcpy(to.data, host, to.bytes());
}

void ComparingBackend::download(ConstTensor from, void* host) {
  if (from.bytes() > 0) std::memcpy(host, from.data, from.bytes());
}

OpDifference& ComparingBackend::difference_of(std::string_view op, std::string_view member, DType dtype) {
  const auto found = std::find_if(differences_.begin(), differences_.end(), [&](const OpDifference& difference) {
    return difference.op == op && difference.member == member && difference.dtype == dtype;
  });
  if (found != differences_.end()) return *found;
  return differences_.emplace_back(OpDifference{.op = std::string(op), .member = std::string(member), .dtype = dtype});
}

void ComparingBackend::compare(std::string_view op, std::string_view member, const ConstTensor& a,
                               const ConstTensor& b) {
  OpDifference& difference = difference_of(op, member, b.dtype);
  const std::int64_t call = difference.calls++;
  difference.elements += b.shape.elements();
  const std::vector<std::uint32_t> bits_a = element_bits(a), bits_b = element_bits(b);
  const TensorDistance distance = distance_of(bits_a, bits_b, b.dtype);
  if (distance.different == 0) return;
  difference.different += distance.different;
  const double largest = largest_magnitude(bits_b, b.dtype);
  if (distance.worst.absolute > 0) {
    difference.relative = std::max(difference.relative, distance.worst.absolute / largest);
  }
  if (difference.element >= 0 && distance.worst.ulp <= difference.ulp) return;
  difference.ulp = distance.worst.ulp;
  difference.range = fmt::format("{}", fmt::join(ranges_, "/"));
  difference.call = call;
  difference.shape = b.shape;
  difference.element = distance.ulp.at;
  difference.value_a = value_of(bits_a[static_cast<std::size_t>(distance.ulp.at)], b.dtype);
  difference.value_b = value_of(bits_b[static_cast<std::size_t>(distance.ulp.at)], b.dtype);
}

}  // namespace babelring
