#pragma once

#include <cstdint>
#include <vector>

#include "nmt/core/random.h"
#include "nmt/ops/backend.h"

namespace babelring {

/// Owns the tensors of one measurement, in a backend's memory or, where the ops want them there, in the host's. Two
/// made alike hold the same values, whatever the backend.
class BenchTensors {
 public:
  /// `backend` must outlive the object.
  explicit BenchTensors(Backend& backend) : backend_(backend) {}

  /// Zeros.
  Tensor make(Shape shape, DType type);
  /// Numbers in [-1, 1), which repeat after 2^20.
  Tensor uniform(Shape shape, DType type);
  /// i32 in [0, bound), which repeat likewise.
  Tensor integers(std::int64_t count, std::int64_t bound);
  /// i32 in [0, bound) as frequent as the pieces of text: piece i with a probability proportional to 1 / (i + 2.2). Of
  /// 32,000 the most frequent one is 4.7 % of all, as the comma in German news.
  Tensor text_ids(std::int64_t count, std::int64_t bound);

  /// i32 in [0, bound), in the host's memory.
  Tensor host_integers(Shape shape, std::int64_t bound);
  Tensor host_list(const std::vector<std::int32_t>& values);
  /// Offsets of sentences with `mean` tokens on average, two thirds to four thirds of it, `rows` tokens in all, in the
  /// host's memory.
  Tensor offsets(std::int64_t rows, std::int64_t mean);

  Backend& backend() { return backend_; }

 private:
  std::vector<std::int32_t> draw(std::int64_t count, std::int64_t bound);
  template <class Element>
  Tensor upload_repeated(const std::vector<Element>& values, Shape shape);

  Backend& backend_;
  Random random_{7};
  std::vector<Buffer> buffers_;
};

}  // namespace babelring
