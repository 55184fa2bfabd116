#include "tests/bench/bench_tensors.h"

#include <algorithm>
#include <cmath>

namespace babelring {

namespace {

constexpr std::int64_t max_drawn = std::int64_t{1} << 20;

std::size_t bytes_of(const Shape& shape, DType type) {
  return static_cast<std::size_t>(std::max<std::int64_t>(shape.elements(), 1)) * size_of(type);
}

}  // namespace

Tensor BenchTensors::make(Shape shape, DType type) {
  buffers_.push_back(backend_.allocate(bytes_of(shape, type)));
  return buffers_.back().view(shape, type);
}

template <class Element>
Tensor BenchTensors::upload_repeated(const std::vector<Element>& values, Shape shape) {
  constexpr DType type = dtype_of<Element>;
  const Tensor tensor = make(shape, type);
  const std::int64_t count = shape.elements(), drawn = std::ssize(values);
  for (std::int64_t first = 0; first < count; first += drawn) {
    backend_.upload(values.data(), Tensor(tensor.as<Element>() + first, {std::min(drawn, count - first)}, type));
  }
  return tensor;
}

Tensor BenchTensors::uniform(Shape shape, DType type) {
  std::vector<float> values(static_cast<std::size_t>(std::min(shape.elements(), max_drawn)));
  for (float& value : values) value = static_cast<float>(2 * random_.uniform() - 1);
  if (type == DType::f32) return upload_repeated(values, shape);
  return upload_repeated(std::vector<BFloat16>(values.begin(), values.end()), shape);
}

std::vector<std::int32_t> BenchTensors::draw(std::int64_t count, std::int64_t bound) {
  std::vector<std::int32_t> values(static_cast<std::size_t>(count));
  for (std::int32_t& value : values) {
    value = static_cast<std::int32_t>(random_.below(static_cast<std::uint64_t>(bound)));
  }
  return values;
}

Tensor BenchTensors::integers(std::int64_t count, std::int64_t bound) {
  return upload_repeated(draw(std::min(count, max_drawn), bound), {count});
}

Tensor BenchTensors::text_ids(std::int64_t count, std::int64_t bound) {
  constexpr double shift = 2.2;
  const double log_span = std::log((static_cast<double>(bound) - 0.5 + shift) / (shift - 0.5));
  std::vector<std::int32_t> ids(static_cast<std::size_t>(std::min(count, max_drawn)));
  for (std::int32_t& id : ids) {
    // The inverse of the integral of 1 / (x + shift) from -0.5 to bound - 0.5, which stands for the sum.
    const double place = (shift - 0.5) * std::exp(random_.uniform() * log_span) - shift;
    id = static_cast<std::int32_t>(std::clamp<std::int64_t>(std::llround(place), 0, bound - 1));
  }
  return upload_repeated(ids, {count});
}

Tensor BenchTensors::host_list(const std::vector<std::int32_t>& values) {
  buffers_.push_back(allocate_host(std::max<std::size_t>(values.size(), 1) * sizeof(std::int32_t)));
  const Tensor tensor = buffers_.back().view({std::ssize(values)}, DType::i32);
  std::copy(values.begin(), values.end(), tensor.as<std::int32_t>());
  return tensor;
}

Tensor BenchTensors::host_integers(Shape shape, std::int64_t bound) {
  return Tensor(host_list(draw(shape.elements(), bound)).data, shape, DType::i32);
}

Tensor BenchTensors::offsets(std::int64_t rows, std::int64_t mean) {
  const std::int64_t shortest = 2 * mean / 3;
  std::vector<std::int32_t> places = {0};
  while (places.back() < rows) {
    const auto length = shortest + static_cast<std::int64_t>(random_.below(static_cast<std::uint64_t>(shortest) + 1));
    places.push_back(static_cast<std::int32_t>(std::min(rows, places.back() + length)));
  }
  return host_list(places);
}

}  // namespace babelring
