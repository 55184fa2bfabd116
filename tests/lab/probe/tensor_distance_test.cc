#include "lab/probe/tensor_distance.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/digest.h"
#include "tests/nmt/ops/op_fixture.h"

namespace babelring {
namespace {

std::uint64_t ulp(float a, float b) {
  return distance_of(std::bit_cast<std::uint32_t>(a), std::bit_cast<std::uint32_t>(b), DType::f32).ulp;
}

TEST(ElementDistance, CountsStepsBetweenNeighboursThroughZero) {
  const float tiny = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(ulp(1, 1), 0U);
  EXPECT_EQ(ulp(1, std::nextafter(1.0f, 2.0f)), 1U);
  EXPECT_EQ(ulp(0.0f, -0.0f), 0U);
  EXPECT_EQ(ulp(tiny, -tiny), 2U);
  EXPECT_EQ(ulp(1, 2), 1U << 23);
  EXPECT_EQ(ulp(NAN, -NAN), 0U) << "NaN equals NaN";
  EXPECT_EQ(ulp(NAN, 1), std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(distance_of(0x3f80u, 0x3f81u, DType::bf16).ulp, 1U);
  EXPECT_EQ(distance_of(0x0001u, 0x8001u, DType::bf16).ulp, 2U);
  EXPECT_EQ(distance_of(5u, static_cast<std::uint32_t>(-2), DType::i32).ulp, 7U);
  const ElementDistance half =
      distance_of(std::bit_cast<std::uint32_t>(1.0f), std::bit_cast<std::uint32_t>(2.0f), DType::f32);
  EXPECT_EQ(half.absolute, 1);
  EXPECT_EQ(half.relative, 0.5);
}

TEST(TensorDistance, NamesTheFirstAndTheWorst) {
  const std::vector<std::uint32_t> a = {1, 2, 3, 4}, b = {1, 3, 3, 9};
  const TensorDistance distance = distance_of(a, b, DType::i32);
  EXPECT_EQ(distance.compared, 4);
  EXPECT_EQ(distance.different, 2);
  EXPECT_EQ(distance.first, 1);
  EXPECT_EQ(distance.ulp.at, 3);
  EXPECT_EQ(distance.worst.ulp, 5U);
}

std::uint32_t bits(float value) {
  return std::bit_cast<std::uint32_t>(value);
}

/// The largest distances may be those of different elements.
TEST(TensorDistance, SaysWhereEachDistanceIsLargest) {
  const std::vector<std::uint32_t> a = {bits(1000), bits(1e-6f)}, b = {bits(1001), bits(2e-6f)};
  const TensorDistance distance = distance_of(a, b, DType::f32);
  EXPECT_EQ(distance.absolute.at, 0);
  EXPECT_EQ(distance.relative.at, 1);
  EXPECT_EQ(distance.ulp.at, 1);
  EXPECT_EQ(distance.ulp.distance.ulp, distance.worst.ulp);
  EXPECT_NEAR(distance.ulp.distance.absolute, 1e-6, 1e-12) << "that of the element, not of the tensor";
  EXPECT_EQ(distance.worst.absolute, 1);
}

TEST(TensorDistance, ComparesF32WithBf16) {
  const std::vector<std::uint32_t> f32 = {bits(1), bits(1.004f), bits(-2), bits(NAN)},
                                   bf16 = {0x3f80, 0x3f80, 0xc001, 0x7fc0};
  const TensorDistance distance = distance_of(f32, DType::f32, bf16, DType::bf16);
  EXPECT_EQ(distance.different, 2);
  EXPECT_EQ(distance.first, 1);
  EXPECT_EQ(distance.worst.ulp, 1U) << "of bf16, rounded up";
  EXPECT_EQ(distance.absolute.at, 2);
  EXPECT_EQ(distance.worst.absolute, 0.015625);
  EXPECT_EQ(distance_of(bf16, DType::bf16, f32, DType::f32).worst.ulp, 1U);
  EXPECT_FALSE(std::isfinite(distance_of(1u, DType::i32, bits(2), DType::f32).absolute));
}

TEST(Tolerance, AllGivenLimitsMustHold) {
  const std::vector<std::uint32_t> a = {std::bit_cast<std::uint32_t>(1000.0f)},
                                   b = {std::bit_cast<std::uint32_t>(1000.5f)};
  const TensorDistance distance = distance_of(a, b, DType::f32);
  const auto allows = [&](const char* text) { return Tolerance::parse(text)->allows(distance); };
  EXPECT_TRUE(allows("1e-3rel"));
  EXPECT_TRUE(allows("0.5abs,1e-3rel"));
  EXPECT_FALSE(allows("0.4abs,1e-3rel"));
  EXPECT_TRUE(allows("1e5ulp"));
  EXPECT_FALSE(allows("4ulp"));
  EXPECT_FALSE(allows("0"));
  EXPECT_TRUE(Tolerance::parse("0")->exact());
}

TEST(Tolerance, RefusesOtherTexts) {
  for (const char* text : {"", "4", "ulp", "-1ulp", "nanrel", "4ulp,", "1e-5 rel", "4ULP"}) {
    const Result<Tolerance> tolerance = Tolerance::parse(text);
    ASSERT_FALSE(tolerance.ok()) << text;
    EXPECT_NE(tolerance.error().find("expected 0 or limits such as 4ulp, 1e-5rel or 1e-6abs, found '"),
              std::string::npos);
  }
}

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
