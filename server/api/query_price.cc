#include "server/api/query_price.h"

#include <fmt/format.h>

#include <algorithm>

namespace babelring::api {
namespace {

/// The product of two non-negative numbers; INT64_MAX on overflow.
std::int64_t product(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  return __builtin_mul_overflow(a, b, &result) ? INT64_MAX : result;
}

}  // namespace

Status check_price(const QueryPrice& price) {
  const std::int64_t points = product(price.series, price.points);
  if (!price.every_point && points > max_query_points) {
    return Error{
        fmt::format("{} series of {} points are {} points, expected at most {}: ask for {}", price.series, price.points,
                    points, max_query_points,
                    price.series <= max_query_points / 2
                        ? fmt::format("at most {} points per series, or fewer series", max_query_points / price.series)
                        : "fewer series")};
  }
  if (price.rows > max_query_rows) {
    return Error{fmt::format(
        "the query reads about {} stored values, expected at most {}: ask for a shorter range (from, to), fewer "
        "series, fewer points per series, or one rank",
        price.rows, max_query_rows)};
  }
  const std::int64_t bytes = product(points, price.point_bytes);
  if (bytes > max_query_bytes) {
    return Error{fmt::format(
        "the response has about {} MiB, expected at most {}: ask for a shorter range (from, to) or format=f64",
        bytes >> 20, max_query_bytes >> 20)};
  }
  return {};
}

}  // namespace babelring::api
