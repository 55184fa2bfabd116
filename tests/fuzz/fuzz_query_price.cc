// The price of a query: five numbers from a client's words and a database. For any numbers, a query that runs is within
// every limit, and a refusal names its reason.

#include <cstring>

#include "server/api/query_price.h"
#include "tests/fuzz/expect.h"

namespace {

using namespace babelring;

std::int64_t number(const std::uint8_t*& data, std::size_t& size) {
  std::uint64_t value = 0;
  const std::size_t bytes = size < sizeof value ? size : sizeof value;
  std::memcpy(&value, data, bytes);
  data += bytes;
  size -= bytes;
  return static_cast<std::int64_t>(value >> 1);  // prices are not negative
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  api::QueryPrice price;
  price.every_point = size > 0 && (data[size - 1] & 1) != 0;
  price.series = number(data, size);
  price.points = number(data, size);
  price.rows = number(data, size);
  price.point_bytes = number(data, size);
  const Status checked = api::check_price(price);
  const auto points = static_cast<__int128>(price.series) * price.points;
  const bool few = price.every_point || points <= api::max_query_points;
  const bool small = points <= api::max_query_bytes && points * price.point_bytes <= api::max_query_bytes;
  const bool free = price.point_bytes == 0 || points == 0;
  expect(checked.ok() == (few && price.rows <= api::max_query_rows && (small || free)),
         "a query runs exactly if it is within every limit");
  expect(checked.ok() || checked.error().find("ask for") != std::string::npos, "a refusal says what to reduce");
  return 0;
}
