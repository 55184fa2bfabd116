#include "nmt/parallel/unit_gradients.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "base/failure.h"
#include "nmt/core/random.h"

namespace babelring {
namespace {

/// Values of which no two orders have the same sum.
float value_of(int unit, std::size_t element) {
  Random random(derive_seed(7, static_cast<std::uint64_t>(unit), element));
  return static_cast<float>(random.normal() * std::ldexp(1.0, unit % 5));
}

float sum_in_pairs(int first, int units, std::size_t element) {
  if (units == 1) return value_of(first, element);
  return sum_in_pairs(first, units / 2, element) + sum_in_pairs(first + units / 2, units / 2, element);
}

class UnitGradientsTest : public testing::TestWithParam<int> {};

TEST_P(UnitGradientsTest, AddsUnitsInPairsWithFewArrays) {
  const int units = GetParam();
  const auto backend = make_cpu_backend(1);
  ParameterStore store;
  const Parameter& matrix = store.declare("matrix", Shape{7, 11}, Initializer::zeros());
  const Parameter& vector = store.declare("vector", Shape{3}, Initializer::zeros());
  store.allocate({allocate_host, allocate_host}, DType::f32);
  const auto held_by_gradients = [&] {
    return backend->ledger().live().of(MemoryPurpose::gradients) / static_cast<std::int64_t>(store.gradients().bytes());
  };
  UnitGradients gradients(*backend, store, units);
  EXPECT_EQ(held_by_gradients(), std::bit_width(static_cast<unsigned>(units)) - 1) << "arrays beyond the store's";
  for (int update = 0; update < 2; ++update) {
    for (int unit = 0; unit < units; ++unit) {
      gradients.begin(unit);
      for (const Parameter* parameter : {&vector, &matrix}) {
        for (std::int64_t i = 0; i < parameter->shape.elements(); ++i) {
          parameter->gradient.as<float>()[i] = value_of(unit, static_cast<std::size_t>(parameter->offset + i));
        }
        gradients.add(*parameter, unit);
      }
    }
    for (const Parameter* parameter : {&vector, &matrix}) {
      EXPECT_EQ(parameter->gradient.as<float>(), store.gradients().as<float>() + parameter->offset);
      for (std::int64_t i = 0; i < parameter->shape.elements(); ++i) {
        const auto place = static_cast<std::size_t>(parameter->offset + i);
        ASSERT_EQ(parameter->gradient.as<float>()[i], sum_in_pairs(0, units, place)) << parameter->name << " " << i;
      }
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Units, UnitGradientsTest, testing::Values(1, 2, 4, 8, 32));

TEST(UnitGradients, AddsUnitsOfOtherRanksInTheirPlace) {
  constexpr int units = 8, own = 5;
  const auto backend = make_cpu_backend(1);
  ParameterStore store;
  const Parameter& matrix = store.declare("matrix", Shape{7, 11}, Initializer::zeros());
  const Parameter& vector = store.declare("vector", Shape{3}, Initializer::zeros());
  store.allocate({allocate_host, allocate_host}, DType::f32);
  UnitGradients gradients(*backend, store, units);
  for (int unit = 0; unit < units; ++unit) {
    if (unit < own) gradients.begin(unit);
    std::vector<float> moved(static_cast<std::size_t>(store.flat_size()));
    for (const Parameter* parameter : {&vector, &matrix}) {
      float* const values = unit < own ? parameter->gradient.as<float>() : moved.data() + parameter->offset;
      for (std::int64_t i = 0; i < parameter->shape.elements(); ++i) {
        values[i] = value_of(unit, static_cast<std::size_t>(parameter->offset + i));
      }
      if (unit < own) gradients.add(*parameter, unit);
    }
    if (unit >= own) gradients.add_all(moved.data(), unit);
  }
  for (const Parameter* parameter : {&vector, &matrix}) {
    EXPECT_EQ(parameter->gradient.as<float>(), store.gradients().as<float>() + parameter->offset);
    for (std::int64_t i = 0; i < parameter->shape.elements(); ++i) {
      const auto place = static_cast<std::size_t>(parameter->offset + i);
      ASSERT_EQ(parameter->gradient.as<float>()[i], sum_in_pairs(0, units, place)) << parameter->name << " " << i;
    }
  }
}

TEST(UnitGradients, RefusesUnitsThatMakeNoTree) {
  const auto backend = make_cpu_backend(1);
  ParameterStore store;
  EXPECT_THROW(UnitGradients(*backend, store, 6), Failure);
}

}  // namespace
}  // namespace babelring
