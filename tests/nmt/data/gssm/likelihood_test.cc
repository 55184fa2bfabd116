#include "nmt/data/gssm/likelihood.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "nmt/data/gssm/generator.h"
#include "tests/nmt/data/gssm/graphs.h"

namespace babelring {
namespace {

using testing::ThrowsMessage;

using States = std::vector<std::int32_t>;  // of all nodes

/// The next combination of latent states; false after the last.
bool advance(const GssmGraph& graph, States& states) {
  for (std::size_t i = 0; i < graph.latents(); ++i) {
    if (++states[i] < graph.nodes[i].states) return true;
    states[i] = 0;
  }
  return false;
}

/// p(states of all nodes in this step | those before), straight from the definition of a step.
double step_probability(const GssmGraph& graph, const GssmKernels& kernels, States before, const States& after) {
  double probability = 1;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    std::int64_t row = 0;
    for (const GssmNode::Input& input : graph.nodes[i].inputs) {
      row += before[static_cast<std::size_t>(input.node)] * input.stride;
    }
    probability *= kernels[i]->row(row)[static_cast<std::size_t>(after[i])];
    before[i] = after[i];
  }
  return probability;
}

/// Sum over all latent paths from `states` on of the probability of tokens[at ..].
double enumerate_paths(const GssmGraph& graph, const GssmKernels& kernels, const States& states,
                       std::span<const std::int32_t> tokens, std::size_t at) {
  if (at == tokens.size()) return 1;
  double sum = 0;
  States next(graph.nodes.size(), 0);
  next.back() = tokens[at];
  do {
    const double probability = step_probability(graph, kernels, states, next);
    sum += probability * enumerate_paths(graph, kernels, next, tokens, at + 1);
  } while (advance(graph, next));
  return sum;
}

/// The likelihood by the full matrix [joint states, joint states] of each token.
double full_matrix(const GssmGraph& graph, const GssmKernels& kernels, std::span<const std::int32_t> tokens) {
  std::vector<States> all;
  States states(graph.nodes.size(), 0);
  do all.push_back(states);
  while (advance(graph, states));
  std::vector<double> joint(all.size());
  joint[0] = 1;
  for (std::size_t t = 1; t < tokens.size(); ++t) {
    std::vector<double> next(all.size());
    for (std::size_t from = 0; from < all.size(); ++from) {
      for (std::size_t to = 0; to < all.size(); ++to) {
        all[from].back() = tokens[t - 1];
        States after = all[to];
        after.back() = tokens[t];
        next[to] += joint[from] * step_probability(graph, kernels, all[from], after);
      }
    }
    joint = next;
  }
  return std::log(std::accumulate(joint.begin(), joint.end(), 0.0));
}

double log_likelihood(const GssmGraph& graph, const GssmKernels& kernels, std::span<const std::int32_t> tokens) {
  std::vector<double> log_probabilities(tokens.size() - 1);
  GssmLikelihood(graph).run(kernels, tokens, log_probabilities);
  return std::accumulate(log_probabilities.begin(), log_probabilities.end(), 0.0);
}

struct Case {
  const char* name;
  GssmMode mode;
  GssmForm form;
};

class GssmLikelihoodTest : public testing::TestWithParam<Case> {
 protected:
  GssmLikelihoodTest() : generator_(make_gssm_graph(options())) {}
  static GssmOptions options() {
    GssmOptions options = chain_graph();
    for (GssmNodeOptions& node : options.nodes) {
      node.kernel = GetParam().form;
      const bool observed = node.name == "X";
      if (!observed || GetParam().mode == GssmMode::context) node.mode = GetParam().mode;
    }
    return options;
  }
  void generate(std::size_t length) {
    tokens_.resize(length);
    kernels_ = generator_.kernels(place_);
    generator_.generate(kernels_, place_, tokens_);
  }
  GssmGenerator generator_;
  SequenceId place_{.seed = 2, .update = 3, .sequence = 4};
  GssmKernels kernels_;
  std::vector<std::int32_t> tokens_;
};

TEST_P(GssmLikelihoodTest, EqualsTheSumOverAllLatentPaths) {
  generate(6);
  const States start(4, 0);
  const double expected =
      std::log(enumerate_paths(generator_.graph(), kernels_, start, std::span(tokens_).subspan(1), 0));
  EXPECT_NEAR(log_likelihood(generator_.graph(), kernels_, tokens_), expected, 1e-12);
}

TEST_P(GssmLikelihoodTest, EqualsTheFullMatrix) {
  generate(200);
  const double expected = full_matrix(generator_.graph(), kernels_, tokens_);
  EXPECT_NEAR(log_likelihood(generator_.graph(), kernels_, tokens_), expected, 1e-10);
}

INSTANTIATE_TEST_SUITE_P(Modes, GssmLikelihoodTest,
                         testing::Values(Case{"fullrank", GssmMode::unchanged, GssmForm::fullrank},
                                         Case{"product", GssmMode::unchanged, GssmForm::product},
                                         Case{"slow", GssmMode::slow, GssmForm::fullrank},
                                         Case{"dead", GssmMode::dead, GssmForm::product},
                                         Case{"context", GssmMode::context, GssmForm::fullrank},
                                         Case{"context_product", GssmMode::context, GssmForm::product}),
                         [](const auto& test) { return test.param.name; });

TEST(GssmLikelihood, EqualsTheFullMatrixWithManyStates) {
  // 2, 4 and 8 states have specialized loops, 5 has not; one object serves two sequences.
  GssmOptions options = published_graph(4, 2, 6, 0.2, 0.3);
  options.nodes[1].state_dim = 8;
  options.nodes[2].state_dim = 5;
  options.nodes[3].state_dim = 4;
  options.nodes[3].parents = {"X", "Z2"};
  const GssmGenerator generator(make_gssm_graph(options));
  GssmLikelihood likelihood(generator.graph());
  for (const std::int64_t sequence : {0, 1}) {
    const SequenceId place{.seed = 1, .update = 1, .sequence = sequence};
    std::vector<std::int32_t> tokens(8);
    std::vector<double> log_probabilities(tokens.size() - 1);
    generator.generate(generator.kernels(place), place, tokens);
    likelihood.run(generator.kernels(place), tokens, log_probabilities);
    EXPECT_NEAR(std::accumulate(log_probabilities.begin(), log_probabilities.end(), 0.0),
                full_matrix(generator.graph(), generator.kernels(place), tokens), 1e-12);
  }
}

TEST(GssmLikelihood, ProbabilitiesOfTheNextTokenAddUpToOne) {
  const GssmGenerator generator(make_gssm_graph(published_graph(3, 3, 5, 0.2, 0.3)));
  GssmLikelihood likelihood(generator.graph());
  double sum = 0;
  for (std::int32_t token = 0; token < 5; ++token) {
    const std::vector<std::int32_t> tokens = {0, 3, 1, 4, token};
    std::vector<double> log_probabilities(4);
    likelihood.run(generator.kernels({}), tokens, log_probabilities);
    sum += std::exp(log_probabilities.back());
  }
  EXPECT_NEAR(sum, 1, 1e-14);
}

TEST(GssmLikelihood, IsTheNumberOfUniformTokens) {
  GssmOptions options = published_graph(2, 4, 32, 1e6, 0.1);  // alpha of a million: rows are uniform to 1e-3
  const GssmGenerator generator(make_gssm_graph(options));
  const std::vector<std::int32_t> tokens = {0, 5, 31, 0, 7};
  EXPECT_NEAR(log_likelihood(generator.graph(), generator.kernels({}), tokens), -4 * std::log(32), 0.05);
}

TEST(GssmLikelihood, IsZeroForDeterministicTokens) {
  // alpha of 1e-6: each row has one probability of nearly 1.
  const GssmGenerator generator(make_gssm_graph(published_graph(2, 4, 32, 1e-6, 1e-6)));
  std::vector<std::int32_t> tokens(100);
  generator.generate(generator.kernels({}), {}, tokens);
  EXPECT_NEAR(log_likelihood(generator.graph(), generator.kernels({}), tokens), 0, 1e-5);
}

TEST(GssmLikelihood, RefusesWhatIsNoSequenceOfTheGraph) {
  const GssmGenerator generator(make_gssm_graph(chain_graph()));
  const GssmKernels kernels = generator.kernels({});
  GssmLikelihood likelihood(generator.graph());
  std::vector<double> two(2);
  const auto refused = [&](const std::vector<std::int32_t>& tokens, const char* message) {
    EXPECT_THAT([&] { likelihood.run(kernels, tokens, two); }, ThrowsMessage<Failure>(message));
  };
  refused({0, 1}, "gssm likelihood: 2 tokens, 2 results; expected at least 1 token and one result fewer");
  refused({1, 1, 1}, "gssm likelihood: the first token is 1, expected 0");
  refused({0, 4, 1}, "gssm likelihood: token 4, expected 0 to 3");
  refused({0, -1, 1}, "gssm likelihood: token -1, expected 0 to 3");
}

using testing::ThrowsMessage;

/// A published setup with the figures of 16 draws of its graph by another program: mean and standard deviation.
struct Published {
  double alpha_x, alpha_z;
  double difficulty, difficulty_deviation;
  double entropy, entropy_deviation;
};

class PublishedSetupTest : public testing::TestWithParam<Published> {};

TEST_P(PublishedSetupTest, EntropyAndDifficultyAreThoseOfAnotherProgram) {
  const Published& setup = GetParam();
  constexpr int draws = 8;
  double entropy = 0, difficulty = 0;
  for (int draw = 0; draw < draws; ++draw) {
    GssmOptions options = published_graph(4, 4, 32, setup.alpha_x, setup.alpha_z);
    options.kernel_seed = draw;
    const GssmGenerator generator(make_gssm_graph(options));
    entropy += estimate_entropy(generator, {}, 1, 2048, 1).nats / draws;
    if (draw < 4) difficulty += measure_difficulty(generator, {}, 24, 2048) / 4;
  }
  const double of_mean = std::sqrt(1.0 / draws + 1.0 / 16);
  EXPECT_NEAR(entropy, setup.entropy, 3 * setup.entropy_deviation * of_mean);
  // Few sequences compress less well: by 0.004 for 24, as for noise.
  EXPECT_NEAR(difficulty, setup.difficulty + 0.004, 3 * setup.difficulty_deviation * std::sqrt(1.0 / 4 + 1.0 / 16));
}

INSTANTIATE_TEST_SUITE_P(Small, PublishedSetupTest,
                         testing::Values(Published{1e-3, 0.125, 0.7306, 0.0221, 1.6892, 0.0706},
                                         Published{5e-2, 1e-3, 0.7354, 0.0139, 1.2557, 0.0323}));

TEST(GssmEntropy, DoesNotDependOnTheNumberOfThreads) {
  const GssmGenerator generator(make_gssm_graph(chain_graph()));
  const GssmEntropy one = estimate_entropy(generator, {}, 7, 32, 1), three = estimate_entropy(generator, {}, 7, 32, 3);
  EXPECT_EQ(one.nats, three.nats);
  EXPECT_EQ(one.standard_error, three.standard_error);
  EXPECT_EQ(one.sequences, 7);
  EXPECT_EQ(one.tokens, 7 * 31);
  EXPECT_TRUE(std::isnan(estimate_entropy(generator, {}, 1, 32, 1).standard_error));
}

TEST(GssmEntropy, SummaryIsMeanAndStandardErrorOfSequences) {
  const GssmEntropy entropy = summarise_entropy(std::vector{1.0, 2.0, 3.0, 6.0}, 10);
  EXPECT_EQ(entropy.nats, 3);
  EXPECT_DOUBLE_EQ(entropy.standard_error, std::sqrt(14.0 / 3 / 4));
  EXPECT_EQ(entropy.tokens, 40);
}

TEST(GssmEntropy, RefusesNothing) {
  const GssmGenerator generator(make_gssm_graph(chain_graph()));
  EXPECT_THAT([&] { estimate_entropy(generator, {}, 0, 32, 1); },
              ThrowsMessage<Failure>("entropy: 0 sequences of 32 tokens, expected at least 1 of at least 2"));
  EXPECT_THAT([&] { estimate_entropy(generator, {}, 1, 1, 1); },
              ThrowsMessage<Failure>("entropy: 1 sequences of 1 tokens, expected at least 1 of at least 2"));
}

TEST(GssmDifficulty, IsThePublishedFigureForNoise) {
  EXPECT_NEAR(noise_difficulty(32, 64 * 2048), 0.989, 0.003);
}

/// zlib's matches reach back by 32 KiB less 262 bytes, which are 4,063 tokens.
TEST(GssmDifficulty, JumpsWhereAPeriodIsLongerThanTheWindow) {
  const auto difficulty = [](std::int64_t period) {
    Random random(1);
    std::vector<std::int32_t> tokens(40'000);
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const auto before = static_cast<std::size_t>(period);
      tokens[i] = i < before ? static_cast<std::int32_t>(random.below(32)) : tokens[i - before];
    }
    return compressed_bytes_per_token(tokens);
  };
  EXPECT_LT(difficulty(4063), 0.3);
  EXPECT_GT(difficulty(4064), 0.9);
}

TEST(GssmDifficulty, IsNearlyZeroForOneRepeatedToken) {
  EXPECT_LT(compressed_bytes_per_token(std::vector<std::int32_t>(10000, 3)), 0.02);
}

TEST(ForEachPart, CoversAllAndRethrows) {
  for (const int threads : {1, 2, 5, 100}) {
    std::vector<int> seen(17);
    for_each_part(17, threads, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t i = first; i < last; ++i) ++seen[static_cast<std::size_t>(i)];
    });
    EXPECT_EQ(seen, std::vector<int>(17, 1));
  }
  EXPECT_THAT(
      [] {
        for_each_part(4, 4, [](std::int64_t first, std::int64_t) {
          if (first > 1) fail("part {}", first);
        });
      },
      ThrowsMessage<Failure>("part 2"));
  EXPECT_THAT([] { for_each_part(4, 0, [](std::int64_t, std::int64_t) {}); },
              ThrowsMessage<Failure>("parts: 0 threads, expected at least 1"));
}

}  // namespace

}  // namespace babelring
