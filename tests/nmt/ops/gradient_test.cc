#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numeric>

#include "tests/reference/formulas.h"

/// The reference's gradients against central differences in double.
namespace babelring::reference {
namespace {

Matrix random(std::int64_t rows, std::int64_t columns, std::uint64_t seed) {
  Random source(seed);
  Matrix matrix(rows, columns);
  for (double& value : matrix.values) value = source.normal();
  return matrix;
}

double dot(const Matrix& a, const Matrix& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.values.size(); ++i) sum += a.values[i] * b.values[i];
  return sum;
}

/// Each element of `gradient` is the slope of `loss` along that element of `at`.
void expect_gradient(const Matrix& gradient, Matrix at, const std::function<double(const Matrix&)>& loss) {
  constexpr double step = 1e-5;
  ASSERT_EQ(gradient.values.size(), at.values.size());
  for (std::size_t i = 0; i < at.values.size(); ++i) {
    const double here = at.values[i];
    at.values[i] = here + step;
    const double above = loss(at);
    at.values[i] = here - step;
    const double below = loss(at);
    at.values[i] = here;
    EXPECT_NEAR(gradient.values[i], (above - below) / (2 * step), 1e-7 * (1 + std::abs(gradient.values[i])));
  }
}

TEST(ReferenceGradient, Linear) {
  const Matrix x = random(3, 5, 1), w = random(7, 5, 2), b = random(1, 7, 3), dy = random(3, 7, 4);
  expect_gradient(linear_backward_data(dy, w), x, [&](const Matrix& at) { return dot(dy, linear(at, w, b)); });
  expect_gradient(linear_backward_weight(dy, x), w, [&](const Matrix& at) { return dot(dy, linear(x, at, b)); });
  expect_gradient(column_sums(dy), b, [&](const Matrix& at) { return dot(dy, linear(x, w, at)); });
}

TEST(ReferenceGradient, ReluThenDropout) {
  const DropoutKey key{.key = 5, .probability = 0.4f};
  const Matrix x = random(5, 11, 1), dy = random(5, 11, 2), w = random(11, 11, 3);
  const auto forward = [&](const Matrix& at) { return product(linear(at, w, {}, true), dropout_factors(key, 5, 11)); };
  const Matrix before = relu_dropout_backward(dy, forward(x), static_cast<double>(key.scale()));
  expect_gradient(linear_backward_data(before, w), x, [&](const Matrix& at) { return dot(dy, forward(at)); });
}

TEST(ReferenceGradient, GuidedAttention) {
  const Matrix q = random(5, 8, 1), k = random(7, 8, 2);
  const AttentionShape shape{.q_offsets = {0, 2, 5}, .k_offsets = {0, 3, 7}, .heads = 2, .scale = 0.4};
  const std::vector<std::vector<std::int64_t>> links = {{1}, {}, {0, 3}, {2, 2, 1}, {3}};
  const auto loss = [&](const Matrix& query, const Matrix& key) {
    const Matrix losses = guided_attention(shape, query, key, links, 1).loss;
    return std::accumulate(losses.values.begin(), losses.values.end(), 0.0);
  };
  const Guided guided = guided_attention(shape, q, k, links, 1);
  expect_gradient(guided.dq, q, [&](const Matrix& at) { return loss(at, k); });
  expect_gradient(guided.dk, k, [&](const Matrix& at) { return loss(q, at); });
}

TEST(ReferenceGradient, Activations) {
  const Matrix z = random(5, 11, 1), dy = random(5, 11, 2);
  for (const Activation activation : {Activation::swish, Activation::gelu}) {
    expect_gradient(product(dy, activation_slope(z, activation)), z,
                    [&](const Matrix& at) { return dot(dy, activated(at, activation)); });
  }
}

TEST(ReferenceGradient, LayerNorm) {
  const Matrix x = random(3, 7, 1), gain = random(1, 7, 2), bias = random(1, 7, 3), dy = random(3, 7, 4);
  const auto forward = layer_norm(x, gain, bias, 1e-5);
  const auto gradients = layer_norm_backward(dy, x, gain, forward.mean, forward.rstd);
  expect_gradient(gradients.dx, x, [&](const Matrix& at) { return dot(dy, layer_norm(at, gain, bias, 1e-5).y); });
  expect_gradient(gradients.dgain, gain, [&](const Matrix& at) { return dot(dy, layer_norm(x, at, bias, 1e-5).y); });
  expect_gradient(gradients.dbias, bias, [&](const Matrix& at) { return dot(dy, layer_norm(x, gain, at, 1e-5).y); });
}

TEST(ReferenceGradient, RmsNorm) {
  const Matrix x = random(3, 7, 1), gain = random(1, 7, 2), none, dy = random(3, 7, 4);
  const auto gradients = layer_norm_backward(dy, x, gain, none, layer_norm(x, gain, none, 1e-5).rstd);
  expect_gradient(gradients.dx, x, [&](const Matrix& at) { return dot(dy, layer_norm(at, gain, none, 1e-5).y); });
  expect_gradient(gradients.dgain, gain, [&](const Matrix& at) { return dot(dy, layer_norm(x, at, none, 1e-5).y); });
}

TEST(ReferenceGradient, RotaryPositions) {
  const Matrix x = random(4, 12, 1), dy = random(4, 12, 2);
  Matrix positions(1, 4);
  positions.values = {0, 1, 7, 900};
  expect_gradient(rotary(dy, positions, 2, true), x,
                  [&](const Matrix& at) { return dot(dy, rotary(at, positions, 2, false)); });
}

TEST(ReferenceGradient, Embedding) {
  Matrix ids(1, 4), positions(1, 4);
  ids.values = {2, 0, 2, 1};
  positions.values = {0, 1, 2, 3};
  const DropoutKey key{.key = 9, .probability = 0.3f};
  const Matrix table = random(5, 6, 1), dy = random(4, 6, 2);
  for (const bool zero_start : {false, true}) {
    const EmbeddingFormula formula{.scale = 2.5, .key = key, .zero_start = zero_start};
    expect_gradient(embedding_backward(ids, positions, dy, 5, formula), table,
                    [&](const Matrix& at) { return dot(dy, embedding(ids, positions, at, formula)); });
  }
}

TEST(ReferenceGradient, Attention) {
  for (const bool causal : {false, true}) {
    const std::vector<std::int64_t> offsets = {0, 1, 1, 6};
    const AttentionShape shape{offsets, causal ? offsets : std::vector<std::int64_t>{0, 3, 3, 5}, 2, causal,
                               0.7,     DropoutKey{.key = 3, .first_row = 2, .probability = 0.3f}};
    const std::int64_t keys = shape.k_offsets.back();
    const Matrix q = random(6, 6, 1), k = random(keys, 6, 2), v = random(keys, 6, 3), dout = random(6, 6, 4);
    const auto gradients = attention_backward(shape, dout, q, k, v);
    expect_gradient(gradients.dq, q, [&](const Matrix& at) { return dot(dout, attention(shape, at, k, v).out); });
    expect_gradient(gradients.dk, k, [&](const Matrix& at) { return dot(dout, attention(shape, q, at, v).out); });
    expect_gradient(gradients.dv, v, [&](const Matrix& at) { return dot(dout, attention(shape, q, k, at).out); });
  }
}

TEST(ReferenceGradient, SymmetricDivergence) {
  Matrix targets(1, 3);
  targets.values = {6, -1, 3};
  const Matrix first = random(3, 7, 1), second = random(3, 7, 2), ones(1, 3, 1.0);
  const auto loss = [&](const Matrix& a, const Matrix& b) {
    return dot(ones, symmetric_divergence(a, b, targets).loss);
  };
  const Divergence divergence = symmetric_divergence(first, second, targets);
  expect_gradient(divergence.dfirst, first, [&](const Matrix& at) { return loss(at, second); });
  expect_gradient(divergence.dsecond, second, [&](const Matrix& at) { return loss(first, at); });
  EXPECT_EQ(loss(first, first), 0);
}

TEST(ReferenceGradient, CrossEntropy) {
  Matrix targets(1, 3);
  targets.values = {6, 0, 3};
  const Matrix logits = random(3, 7, 1), ones(1, 3, 1.0);
  expect_gradient(cross_entropy(logits, targets, 0.1).dlogits, logits,
                  [&](const Matrix& at) { return dot(ones, cross_entropy(at, targets, 0.1).loss); });
}

}  // namespace
}  // namespace babelring::reference
