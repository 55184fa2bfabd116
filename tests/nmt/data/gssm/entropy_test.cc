#include "nmt/data/gssm/entropy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "nmt/data/gssm/difficulty.h"
#include "nmt/data/gssm/parallel.h"
#include "tests/nmt/data/gssm/graphs.h"

namespace babelring {
namespace {

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

TEST(GssmDifficulty, OfNoiseIsThePublishedFigure) {
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

TEST(GssmDifficulty, OfOneTokenRepeatedIsNearlyNothing) {
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
