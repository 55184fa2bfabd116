#include "nmt/data/gssm/generator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "tests/nmt/data/gssm/graphs.h"

namespace babelring {
namespace {

std::vector<std::int32_t> generate(const GssmGenerator& generator, const SequenceId& place, std::size_t length) {
  std::vector<std::int32_t> tokens(length);
  generator.generate(generator.kernels(place), place, tokens);
  return tokens;
}

TEST(GssmGenerator, ASequenceIsAPureFunctionOfItsPlace) {
  const GssmGenerator generator(make_gssm_graph(chain_graph())), again(make_gssm_graph(chain_graph()));
  const SequenceId place{.seed = 3, .update = 17, .sequence = 5};
  const std::vector<std::int32_t> tokens = generate(generator, place, 64);
  EXPECT_EQ(tokens, generate(again, place, 64));
  EXPECT_EQ(tokens.front(), 0);
  const std::vector<std::int32_t> longer = generate(generator, place, 100);
  EXPECT_TRUE(std::equal(tokens.begin(), tokens.end(), longer.begin()));
  EXPECT_NE(tokens, generate(generator, {.seed = 4, .update = 17, .sequence = 5}, 64));
  EXPECT_NE(tokens, generate(generator, {.seed = 3, .update = 18, .sequence = 5}, 64));
  EXPECT_NE(tokens, generate(generator, {.seed = 3, .update = -17, .sequence = 5}, 64));
  EXPECT_NE(tokens, generate(generator, {.seed = 3, .update = 17, .sequence = 6}, 64));
}

TEST(GssmGenerator, TheOrderOfNodesInTheConfigurationDoesNotMatter) {
  GssmOptions reordered = chain_graph();
  std::swap(reordered.nodes[0], reordered.nodes[2]);
  const GssmGenerator generator(make_gssm_graph(chain_graph())), other(make_gssm_graph(reordered));
  EXPECT_EQ(generate(generator, {}, 64), generate(other, {}, 64));
}

TEST(GssmGenerator, KernelSeedsGiveOtherKernels) {
  GssmOptions options = chain_graph();
  const GssmGenerator generator(make_gssm_graph(options));
  options.kernel_seed = 43;
  const GssmGenerator other(make_gssm_graph(options));
  EXPECT_NE(generator.kernels({})[0]->row(0)[0], other.kernels({})[0]->row(0)[0]);
}

TEST(GssmGenerator, ContextKernelsAreDrawnForEachSequenceOrUpdate) {
  GssmOptions options = chain_graph();
  options.nodes[1].mode = GssmMode::context;  // A, at 2 in the graph
  const GssmGenerator per_sequence(make_gssm_graph(options));
  options.context_per = GssmContext::update;
  const GssmGenerator per_update(make_gssm_graph(options));
  const auto probability = [](const GssmGenerator& generator, std::size_t node, std::int64_t update,
                              std::int64_t sequence) {
    return generator.kernels({.seed = 1, .update = update, .sequence = sequence})[node]->row(0)[0];
  };
  EXPECT_NE(probability(per_sequence, 2, 1, 0), probability(per_sequence, 2, 1, 1));
  EXPECT_NE(probability(per_sequence, 2, 1, 0), probability(per_sequence, 2, 2, 0));
  EXPECT_EQ(probability(per_update, 2, 1, 0), probability(per_update, 2, 1, 1));
  EXPECT_NE(probability(per_update, 2, 1, 0), probability(per_update, 2, 2, 0));
  EXPECT_EQ(probability(per_sequence, 1, 1, 0), probability(per_sequence, 1, 2, 1));  // B is not in context mode
}

TEST(GssmGenerator, TokensFollowTheKernels) {
  // Without latent parents, tokens after the first are independent draws from one row.
  GssmOptions options{.nodes = {{.name = "X", .state_dim = 4}}, .alpha_x = 1};
  const GssmGenerator generator(make_gssm_graph(options));
  const auto row = generator.kernels({})[0]->row(0);
  std::vector<double> counts(4);
  constexpr int length = 20001;
  const std::vector<std::int32_t> tokens = generate(generator, {}, length);
  for (std::size_t t = 1; t < tokens.size(); ++t) ++counts[static_cast<std::size_t>(tokens[t])];
  for (std::size_t s = 0; s < 4; ++s) {
    EXPECT_NEAR(counts[s], row[s] * (length - 1), 4 * std::sqrt(row[s] * (1 - row[s]) * length));
  }
}

/// A latent node with an own input of `states` states and one more input of `others`.
GssmNode make_node(int states, int others, double alpha, GssmMode mode = GssmMode::unchanged,
                   GssmForm form = GssmForm::fullrank) {
  return {.name = "Z",
          .states = states,
          .inputs = {{.node = 0, .states = states, .stride = others}, {.node = 1, .states = others, .stride = 1}},
          .rows = std::int64_t{states} * others,
          .alpha = alpha,
          .mode = mode,
          .form = form};
}

TEST(GssmKernel, GammaDrawsHaveTheirMeanAndTheLogarithmsOfTinyOnes) {
  for (const double alpha : {0.5, 1.0, 3.0}) {
    Random random(7);
    double sum = 0;
    constexpr int draws = 20000;
    for (int i = 0; i < draws; ++i) sum += std::exp(draw_log_gamma(alpha, random));
    EXPECT_NEAR(sum / draws, alpha, 4 * std::sqrt(alpha / draws)) << alpha;
  }
  // E log Gamma(alpha) = digamma(alpha), about -1 / alpha - 0.577 for small alpha, with deviation 1 / alpha.
  Random random(7);
  double sum = 0;
  for (int i = 0; i < 10000; ++i) sum += draw_log_gamma(1e-3, random);
  EXPECT_NEAR(sum / 10000, -1000.58, 4 * 1000 / 100.0);
}

TEST(GssmKernel, RowsAreProbabilitiesAtAnyAlpha) {
  for (const GssmForm form : {GssmForm::fullrank, GssmForm::product}) {
    for (const double alpha : {1e-6, 1e-3, 0.1, 1.0, 1e6}) {
      const GssmKernel kernel(make_node(8, 16, alpha, GssmMode::unchanged, form), 3);
      ASSERT_EQ(kernel.rows(), 128);
      for (std::int64_t i = 0; i < kernel.rows(); ++i) {
        const auto row = kernel.row(i);
        EXPECT_NEAR(std::accumulate(row.begin(), row.end(), 0.0), 1, 1e-14);
        EXPECT_GE(*std::min_element(row.begin(), row.end()), 0.99e-10);
      }
    }
  }
}

TEST(GssmKernel, RowsHaveTheVarianceOfTheirDirichletDistribution) {
  // Each probability has mean 1/n and variance (1/n)(1 - 1/n) / (n alpha + 1).
  constexpr int n = 4;
  for (const double alpha : {1e-3, 0.125, 1.0}) {
    const GssmKernel kernel(make_node(n, 2000, alpha), 11);
    double mean = 0, square = 0;
    for (std::int64_t i = 0; i < kernel.rows(); ++i) {
      mean += kernel.row(i)[1];
      square += kernel.row(i)[1] * kernel.row(i)[1];
    }
    const auto rows = static_cast<double>(kernel.rows());
    const double variance = 0.25 * 0.75 / (n * alpha + 1);
    EXPECT_NEAR(mean / rows, 0.25, 4 * std::sqrt(variance / rows)) << alpha;
    EXPECT_NEAR(square / rows - 0.0625, variance, 0.06 * variance) << alpha;
  }
}

TEST(GssmKernel, SlowAndDeadNodesPreferAState) {
  const GssmKernel plain(make_node(4, 8, 0.3), 5);
  const GssmKernel slow(make_node(4, 8, 0.3, GssmMode::slow), 5), dead(make_node(4, 8, 0.3, GssmMode::dead), 5);
  for (std::int64_t i = 0; i < plain.rows(); ++i) {
    for (const auto& [kernel, preferred] : {std::pair(&slow, i / 8), std::pair(&dead, std::int64_t{0})}) {
      std::vector<double> expected(plain.row(i).begin(), plain.row(i).end());
      std::swap(*std::max_element(expected.begin(), expected.end()), expected[static_cast<std::size_t>(preferred)]);
      EXPECT_EQ(std::vector<double>(kernel->row(i).begin(), kernel->row(i).end()), expected) << i;
    }
  }
}

TEST(GssmKernel, ProductsAreOuterSumsOfLogarithms) {
  const GssmKernel kernel(make_node(4, 3, 1.0, GssmMode::unchanged, GssmForm::product), 5);
  // log p(z | a, b) = f(a, z) + g(b, z) - log normaliser(a, b): ratios of ratios do not depend on the other input.
  const auto ratio = [&](int a, int b) { return kernel.row(a * 3 + b)[2] / kernel.row(a * 3 + b)[0]; };
  for (int b = 1; b < 3; ++b)
    EXPECT_NEAR(ratio(1, b) / ratio(0, b), ratio(1, 0) / ratio(0, 0), 1e-9 * ratio(1, 0) / ratio(0, 0));
  EXPECT_GT(std::abs(ratio(1, 0) - ratio(0, 0)), 1e-3);
}

TEST(GssmKernel, DrawsFollowTheRow) {
  const GssmKernel kernel(make_node(5, 2, 0.5), 9);
  Random random(1);
  constexpr int draws = 50000;
  for (std::int64_t row = 0; row < 3; ++row) {
    std::vector<int> counts(5);
    for (int i = 0; i < draws; ++i) ++counts[static_cast<std::size_t>(kernel.draw(row, random))];
    for (std::size_t s = 0; s < 5; ++s) {
      const double p = kernel.row(row)[s];
      EXPECT_NEAR(counts[s], p * draws, 4.5 * std::sqrt(p * (1 - p) * draws) + 1) << row << " " << s;
    }
  }
}

TEST(GssmKernel, IsAPureFunctionOfNodeAndSeed) {
  const GssmKernel a(make_node(4, 8, 0.3), 5), b(make_node(4, 8, 0.3), 5), c(make_node(4, 8, 0.3), 6);
  EXPECT_TRUE(std::equal(a.probabilities().begin(), a.probabilities().end(), b.probabilities().begin()));
  EXPECT_FALSE(std::equal(a.probabilities().begin(), a.probabilities().end(), c.probabilities().begin()));
}

}  // namespace

}  // namespace babelring
