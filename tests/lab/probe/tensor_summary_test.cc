#include "lab/probe/tensor_summary.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/digest.h"
#include "tests/nmt/ops/op_fixture.h"

namespace babelring {
namespace {

TEST(TensorSummary, DescribesFiniteElements) {
  const float values[] = {1, -3, 0, 2, INFINITY, NAN};
  const TensorSummary summary = summarize(ConstTensor(values, Shape{2, 3}, DType::f32));
  EXPECT_EQ(summary.min, -3);
  EXPECT_EQ(summary.max, 2);
  EXPECT_EQ(summary.absmax, 3);
  EXPECT_EQ(summary.mean, 0);
  EXPECT_DOUBLE_EQ(summary.rms, std::sqrt(14.0 / 4));
  EXPECT_EQ(summary.zeros, 1);
  EXPECT_EQ(summary.non_finite, 2);
  EXPECT_EQ(summary.bits.size(), 6U);
  EXPECT_EQ(value_of(summary.bits[1], DType::f32), -3);
  EXPECT_EQ(summary.sha256, sha256_hex({reinterpret_cast<const char*>(values), sizeof values}));
}

TEST(TensorSummary, SkipsThePaddingOfStridedRows) {
  Tensors tensors;
  for (const DType type : {DType::f32, DType::bf16}) {
    const Tensor strided = tensors.strided(7, 5, type);
    EXPECT_EQ(summarize(strided), summarize(tensors.copy(strided)));
  }
}

TEST(TensorSummary, AnEmptyTensorHasNoElements) {
  const TensorSummary summary = summarize(ConstTensor(&summary, Shape{0, 4}, DType::f32));
  EXPECT_TRUE(summary.bits.empty());
  EXPECT_EQ(summary.non_finite, 0);
}

TEST(SampledPlaces, AreDistinctAscendingAndReachBothEnds) {
  for (const std::int64_t elements : {1, 63, 64, 65, 1000, 33'000'000}) {
    const std::vector<std::int64_t> places = sampled_places(elements);
    EXPECT_EQ(std::ssize(places), std::min<std::int64_t>(elements, 64));
    EXPECT_TRUE(std::is_sorted(places.begin(), places.end()));
    EXPECT_EQ(std::adjacent_find(places.begin(), places.end()), places.end()) << elements;
    EXPECT_EQ(places.front(), 0);
    EXPECT_EQ(places.back(), elements - 1);
    EXPECT_EQ(sampled_places(elements), places);
  }
}

/// The page finds an element's place by the same function (tests/dashboard/lab_parts_test.ts).
TEST(SampledPlaces, AreTheSameForever) {
  const std::vector<std::int64_t> places = sampled_places(262'144);
  EXPECT_EQ((std::vector{places[1], places[2], places[31], places[62]}),
            (std::vector<std::int64_t>{4428, 8501, 127'903, 254'855}));
}

}  // namespace
}  // namespace babelring
