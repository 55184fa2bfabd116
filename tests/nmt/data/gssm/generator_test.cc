#include "nmt/data/gssm/generator.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "tests/nmt/data/gssm/graphs.h"

namespace babelring {
namespace {

std::vector<std::int32_t> generate(const GssmGenerator& generator, const GssmPlace& place, std::size_t length) {
  std::vector<std::int32_t> tokens(length);
  generator.generate(generator.kernels(place), place, tokens);
  return tokens;
}

TEST(GssmGenerator, ASequenceIsAPureFunctionOfItsPlace) {
  const GssmGenerator generator(make_gssm_graph(chain_graph())), again(make_gssm_graph(chain_graph()));
  const GssmPlace place{.seed = 3, .update = 17, .sequence = 5};
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

}  // namespace
}  // namespace babelring
