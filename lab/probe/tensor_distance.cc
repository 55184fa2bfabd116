#include "lab/probe/tensor_distance.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "lab/probe/tensor_summary.h"

namespace babelring {

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
