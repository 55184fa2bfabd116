#include "nmt/core/parameters.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "base/failure.h"

namespace babelring {
namespace {

TEST(ParameterStore, FlatArraysKeepDeclarationOrder) {
  ParameterStore store;
  const Parameter& a = store.declare("a", Shape{3, 5}, Initializer::ones());
  const Parameter& b = store.declare("b", Shape{70}, Initializer::zeros());
  store.allocate({allocate_host, allocate_host}, DType::bf16);
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

TEST(ParameterStore, GradientsGoToTheArrayChosen) {
  ParameterStore store;
  store.declare("a", Shape{3, 5}, Initializer::ones());
  const Parameter& b = store.declare("b", Shape{70}, Initializer::zeros());
  store.allocate({allocate_host, allocate_host}, DType::bf16);
  const Tensor first = b.gradient;
  store.add_gradients(allocate_host(store.gradients().bytes()));
  store.write_gradient_to(b, 1);
  EXPECT_NE(b.gradient.data, first.data);
  EXPECT_EQ(b.gradient.shape, b.shape);
  EXPECT_EQ(b.gradient.data, store.gradient(b, 1).data);
  const auto element = store.at(b.gradient.as<float>() + 69);
  ASSERT_TRUE(element);
  EXPECT_EQ(element->parameter, &b);
  EXPECT_EQ(element->array, ParameterArray::gradients);
  EXPECT_EQ(element->element, 69);
  store.write_gradient_to(b, 0);
  EXPECT_EQ(b.gradient.data, first.data);
}

TEST(ParameterStore, InferenceModelHasNoGradients) {
  ParameterStore store;
  const Parameter& a = store.declare("a", Shape{3, 5}, Initializer::ones());
  std::size_t allocated = 0;
  const auto count = [&](std::size_t bytes) {
    allocated += bytes;
    return allocate_host(bytes);
  };
  store.allocate({.weights = count, .gradients = {}}, DType::bf16);
  EXPECT_EQ(allocated, 64U * 6);
  EXPECT_FALSE(a.gradient);
  EXPECT_THROW(store.gradients(), Failure);
}

TEST(ParameterStore, ComputeIsTheMasterInF32Mode) {
  ParameterStore store;
  const Parameter& a = store.declare("a", Shape{4}, Initializer::ones());
  store.allocate({allocate_host, allocate_host}, DType::f32);
  EXPECT_EQ(a.compute.data, a.master.data);
  EXPECT_FALSE(store.compute_copies());
}

TEST(ParameterStore, KnowsTheParameterOfAnAddress) {
  ParameterStore store;
  const Parameter& a = store.declare("a", Shape{3, 5}, Initializer::ones());
  const Parameter& b = store.declare("b", Shape{70}, Initializer::zeros());
  store.allocate({allocate_host, allocate_host}, DType::bf16);
  const auto text_of = [&store](const void* address) -> std::string {
    const std::optional<ParameterElement> place = store.at(address);
    if (!place) return "none";
    const char* const arrays[] = {"master", "gradient", "copy"};
    return place->parameter->name + " " + arrays[static_cast<int>(place->array)] + " " + std::to_string(place->element);
  };
  EXPECT_EQ(text_of(a.master.data), "a master 0");
  EXPECT_EQ(text_of(a.gradient.as<float>() + 14), "a gradient 14");
  EXPECT_EQ(text_of(b.compute.as<BFloat16>() + 69), "b copy 69");
  EXPECT_EQ(text_of(b.master.as<char>() + 4 * 69 + 3), "b master 69") << "any byte of the element";
  EXPECT_EQ(text_of(a.master.as<float>() + 15), "none") << "padding";
  EXPECT_EQ(text_of(b.gradient.as<float>() + 70), "none") << "padding";
  EXPECT_EQ(text_of(store.masters().as<float>() + store.flat_size()), "none");
  EXPECT_EQ(text_of(&store), "none");
  EXPECT_EQ(text_of(nullptr), "none");
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
