#include "nmt/data/gssm/gssm_source.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "nmt/data/gssm/likelihood.h"
#include "tests/nmt/data/gssm/graphs.h"

namespace babelring {
namespace {

constexpr GssmSourceOptions small{.sequence_length = 12, .sequences_per_update = 8, .seed = 5, .entropy_every = 3};

GssmSource source_of(std::int64_t kernel_seed = 42, GssmSourceOptions options = small) {
  GssmOptions graph = chain_graph();
  graph.kernel_seed = kernel_seed;
  return GssmSource(make_gssm_graph(graph), options);
}

/// The targets of each sequence, in the order of ranks and micro-batches.
std::vector<std::vector<std::int32_t>> sequences_of(const GssmSource& source, std::int64_t update, int world) {
  std::vector<std::vector<std::int32_t>> sequences;
  for (int rank = 0; rank < world; ++rank) {
    const UpdateBatches part = source.make(update, {}, {.rank = rank, .world = world, .micro_batch_tokens = 24});
    for (const PackedBatch& batch : part.micro_batches) {
      for (auto at = batch.target_out.begin(); at != batch.target_out.end(); at += 11)
        sequences.emplace_back(at, at + 11);
    }
  }
  return sequences;
}

TEST(GssmSource, AnUpdateIsTheSameOnAnyNumberOfRanks) {
  const GssmSource source = source_of();
  const auto alone = sequences_of(source, 7, 1);
  EXPECT_EQ(std::set(alone.begin(), alone.end()).size(), 8U) << "no sequence occurs twice";
  EXPECT_EQ(sequences_of(source, 7, 2), alone);
  EXPECT_EQ(sequences_of(source, 7, 4), alone);
  EXPECT_EQ(sequences_of(source_of(), 7, 1), alone) << "a resumed run makes the same update";
  EXPECT_NE(sequences_of(source, 8, 1), alone);
}

TEST(GssmSource, TheDigestFollowsFromTheGraphAndTheLength) {
  const std::string digest = source_of().digest();
  EXPECT_EQ(digest.size(), 64U);
  GssmSourceOptions options = small;
  options.sequences_per_update = 4;
  EXPECT_EQ(source_of(42, options).digest(), digest);
  EXPECT_NE(source_of(43).digest(), digest);
  options.sequence_length = 13;
  EXPECT_NE(source_of(42, options).digest(), digest);
}

TEST(GssmSource, ComputesTheExactEntropyOfSomeUpdates) {
  const GssmSource source = source_of();
  EXPECT_TRUE(std::isnan(source.make(4, {}, {}).entropy));
  const double alone = source.make(6, {}, {}).entropy;
  const GssmEntropy expected = estimate_entropy(source.generator(), {.seed = 5, .update = 6}, 8, 12, 1);
  EXPECT_NEAR(alone, expected.nats * 8 * 11, 1e-9);
  double parts = 0;
  for (int rank = 0; rank < 4; ++rank) parts += source.make(6, {}, {.rank = rank, .world = 4}).entropy;
  EXPECT_NEAR(parts, alone, 1e-9);
}

TEST(GssmSource, TellsTheSizeOfItsUpdates) {
  const UpdateShape shape = source_of().shape();
  EXPECT_EQ(shape.max_length, 11);
  EXPECT_EQ(shape.target_tokens, 88);
  EXPECT_EQ(source_of().updates_per_epoch(), 0);
}

TEST(GssmHeldOut, HoldsTheSequencesOfUpdateMinusOneAndTheirEntropy) {
  const GssmHeldOut held_out(make_gssm_graph(chain_graph()), "test", 6, 12, 5);
  std::vector<std::int32_t> tokens(12), expected(12);
  held_out.read(3, tokens);
  const SequenceId place{.seed = 5, .update = -1, .sequence = 3};
  held_out.generator().generate(held_out.generator().kernels(place), place, expected);
  EXPECT_EQ(tokens, expected);
  const double nats = estimate_entropy(held_out.generator(), {.seed = 5, .update = -1}, 6, 12, 1).nats;
  EXPECT_NEAR(held_out.entropy(0, 6, 2), nats * 6 * 11, 1e-9);
  double sum = 0;
  for (std::int64_t i = 2; i < 6; ++i) {
    for (const double each : held_out.target_entropies(i)) sum += each;
  }
  EXPECT_NEAR(held_out.entropy(2, 6, 1), sum, 1e-9);
}

}  // namespace
}  // namespace babelring
