#include "nmt/core/parameters.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "nmt/base/failure.h"

namespace babelring {
namespace {

TEST(ParameterStore, FlatArraysHoldParametersInOrder) {
  ParameterStore store;
  const Parameter& a = store.declare("a", Shape{3, 5}, Initializer::ones());
  const Parameter& b = store.declare("b", Shape{70}, Initializer::zeros());
  store.allocate(allocate_host, DType::bf16);
  EXPECT_EQ(a.offset, 0);
  EXPECT_EQ(b.offset, 64);
  EXPECT_EQ(store.flat_size(), 64 + 128);
  EXPECT_EQ(store.padded_size(a) + store.padded_size(b), store.flat_size());
  EXPECT_EQ(store.count(), 85);
  EXPECT_EQ(b.master.as<float>() - a.master.as<float>(), 64);
  EXPECT_EQ(b.gradient.as<float>() - a.gradient.as<float>(), 64);
  EXPECT_EQ(a.compute.dtype, DType::bf16);
  EXPECT_THROW(store.declare("late", Shape{1}, Initializer::zeros()), Failure);
}

TEST(ParameterStore, MovesGradientsIntoOtherMemory) {
  ParameterStore store;
  store.declare("a", Shape{3, 5}, Initializer::ones());
  const Parameter& b = store.declare("b", Shape{70}, Initializer::zeros());
  store.allocate(allocate_host, DType::f32);
  Buffer other = allocate_host(store.gradients().bytes());
  float* data = static_cast<float*>(other.data());
  store.place_gradients(std::move(other));
  EXPECT_EQ(store.gradients().as<float>(), data);
  EXPECT_EQ(b.gradient.as<float>(), data + 64);
  EXPECT_EQ(b.gradient.shape, b.shape);
  EXPECT_THROW(store.place_gradients(allocate_host(4)), Failure);
}

TEST(ParameterStore, WithoutBf16ComputeIsTheMaster) {
  ParameterStore store;
  const Parameter& a = store.declare("a", Shape{4}, Initializer::ones());
  store.allocate(allocate_host, DType::f32);
  EXPECT_EQ(a.compute.data, a.master.data);
  EXPECT_FALSE(store.compute_copies());
}

TEST(InitialValues, DependOnNameAndSeedOnly) {
  ParameterStore store;
  const Parameter& a = store.declare("a", Shape{40, 60}, Initializer::glorot(60, 40));
  const Parameter& b = store.declare("b", Shape{40, 60}, Initializer::glorot(60, 40));
  EXPECT_EQ(initial_values(a, 1), initial_values(a, 1));
  EXPECT_NE(initial_values(a, 1), initial_values(a, 2));
  EXPECT_NE(initial_values(a, 1), initial_values(b, 1));
  const std::vector<float> values = initial_values(a, 1);
  const float bound = std::sqrt(6.0f / 100.0f);
  EXPECT_LE(*std::max_element(values.begin(), values.end()), bound);
  EXPECT_GT(*std::max_element(values.begin(), values.end()), 0.99f * bound);
}

}  // namespace
}  // namespace babelring
