#include "insight/predict/gradient_sum.h"

#include <gtest/gtest.h>

#include <limits>

namespace babelring::insight {
namespace {

Topology topology(int hosts, int ranks_per_host, AllReduceAlgorithm algorithm) {
  Topology made{.hosts = hosts, .ranks_per_host = ranks_per_host, .algorithm = algorithm};
  made.inside = {.gbit_per_s = 80, .latency_us = 10};
  made.between = {.gbit_per_s = 8, .latency_us = 50};
  return made;
}

TEST(GradientSumTest, RingIsBoundByTheSlowestLink) {
  // 8 Gbit/s are 1 MB a ms.
  EXPECT_NEAR(sum_ms(topology(2, 2, AllReduceAlgorithm::ring), 100), 6 * (0.05 + 25), 1e-9);
  EXPECT_NEAR(sum_ms(topology(1, 4, AllReduceAlgorithm::ring), 100), 6 * (0.01 + 2.5), 1e-9);
  EXPECT_EQ(sum_ms(topology(1, 1, AllReduceAlgorithm::ring), 100), 0);
}

TEST(GradientSumTest, TreeSendsSegmentsOneBehindTheOther) {
  Topology tree = topology(4, 1, AllReduceAlgorithm::tree);
  tree.segment_mb = 100;
  EXPECT_NEAR(sum_ms(tree, 100), 4 * (0.05 + 100), 1e-9) << "2 ceil(log2 n) (a + b s) for one segment";
  tree.segment_mb = 1;
  EXPECT_NEAR(sum_ms(tree, 100), (4 + 99) * (0.05 + 1), 1e-9);
}

TEST(GradientSumTest, TwoLevelsOfRingsShareTheLinkBetweenHosts) {
  EXPECT_NEAR(sum_ms(topology(2, 4, AllReduceAlgorithm::two_level), 100), 6 * (0.01 + 2.5) + 2 * (0.05 + 50), 1e-9);
}

TEST(GradientSumTest, TwoLevelsSumBetweenHostsAsTheWorkerDoes) {
  EXPECT_NEAR(sum_ms(topology(3, 1, AllReduceAlgorithm::two_level), 100), 4 * (0.05 + 100.0 / 3), 1e-9) << "a ring";
  EXPECT_NEAR(sum_ms(topology(8, 1, AllReduceAlgorithm::two_level), 100), 6 * 0.05 + 2 * 87.5, 1e-9)
      << "a tree of 3 levels";
  EXPECT_NEAR(sum_ms(topology(8, 2, AllReduceAlgorithm::two_level), 100), 2 * (0.01 + 5) + 6 * 0.05 + 2 * 87.5, 1e-9);
  // Beside 4 of 6 hosts, 2 give their values to others and get the sums: worth it for small sums only.
  EXPECT_NEAR(sum_ms(topology(6, 1, AllReduceAlgorithm::two_level), 0.01), 6 * 0.05 + 2 * (0.0075 + 0.01), 1e-9);
  EXPECT_NEAR(sum_ms(topology(6, 1, AllReduceAlgorithm::two_level), 100), 10 * (0.05 + 100.0 / 6), 1e-9);
  // It is the shard of a rank that counts: the bucket is too large for one rank on each host.
  EXPECT_NEAR(sum_ms(topology(300, 4, AllReduceAlgorithm::two_level), 20),
              6 * (0.01 + 0.5) + 18 * 0.05 + 2 * (20 * 255. / 256 + 20), 1e-9);
  EXPECT_NEAR(sum_ms(topology(300, 1, AllReduceAlgorithm::two_level), 20), 598 * (0.05 + 20. / 300), 1e-9);
  Topology bf16 = topology(8, 1, AllReduceAlgorithm::two_level);
  bf16.wire = GradientWire::bf16;
  EXPECT_NEAR(sum_ms(bf16, 100), 14 * (0.05 + 50.0 / 8), 1e-9) << "trees sum in f32 only";
  EXPECT_NEAR(sum_ms(topology(8, 1, AllReduceAlgorithm::ring), 100), 14 * (0.05 + 100.0 / 8), 1e-9)
      << "where a ring is required";
  Topology sharded = topology(8, 1, AllReduceAlgorithm::two_level);
  sharded.optimizer = OptimizerPlacement::sharded;
  EXPECT_NEAR(sum_ms(sharded, 100), 3 * 0.05 + 87.5, 1e-9) << "half of the tree";
  sharded.hosts = 6;
  EXPECT_NEAR(sum_ms(sharded, 0.01), 5 * (0.05 + 0.01 / 6), 1e-9) << "a reduce-scatter between 6 hosts is a ring";
}

TEST(GradientSumTest, OneCopyReadsOtherRanksAndStagedCopiesTwice) {
  Topology one_copy = topology(1, 4, AllReduceAlgorithm::shared_memory);
  EXPECT_NEAR(sum_ms(one_copy, 100), 2 * 0.01 + 7.5, 1e-9);
  one_copy.wire = GradientWire::bf16;
  EXPECT_NEAR(sum_ms(one_copy, 100), 2 * 0.01 + 7.5, 1e-9) << "shared memory sums in f32";
  Topology staged = topology(1, 4, AllReduceAlgorithm::staged);
  staged.device_copy_ms_per_gb = 100;
  EXPECT_NEAR(sum_ms(staged, 100), sum_ms(topology(1, 4, AllReduceAlgorithm::ring), 100) + 2 * 10, 1e-9);
}

TEST(GradientSumTest, Int8SendsAByteAndItsShareOfAScale) {
  Topology levels = topology(2, 2, AllReduceAlgorithm::two_level);
  const double f32 = host_megabytes(levels, 1024);
  levels.wire = GradientWire::int8;
  EXPECT_DOUBLE_EQ(host_megabytes(levels, 1024), f32 / 1024 * 260);
  EXPECT_EQ(configured_wire("int8"), GradientWire::int8);
  EXPECT_EQ(configured_wire(""), GradientWire::f32);
}

TEST(GradientSumTest, Bf16HalvesBytesAndInfiniteLinksTakeNoTime) {
  Topology ring = topology(2, 2, AllReduceAlgorithm::ring);
  EXPECT_DOUBLE_EQ(host_megabytes(ring, 100), 150);
  ring.wire = GradientWire::bf16;
  EXPECT_DOUBLE_EQ(host_megabytes(ring, 100), 75);
  EXPECT_DOUBLE_EQ(rank_megabytes(ring, 100), 75);
  for (Link* link : {&ring.inside, &ring.between}) *link = {.gbit_per_s = std::numeric_limits<double>::infinity()};
  for (const auto& [word, algorithm] : algorithm_choices()) {
    if (algorithm == AllReduceAlgorithm::shared_memory) continue;
    ring.algorithm = algorithm;
    EXPECT_EQ(sum_ms(ring, 100), 0) << word;
  }
}

TEST(GradientSumTest, MessagesTakeTheProcessorTimeOfTheirLinks) {
  Topology two_by_two = topology(2, 2, AllReduceAlgorithm::two_level);
  two_by_two.inside.busy_ms_per_gb = 200;
  two_by_two.between.busy_ms_per_gb = 3000;
  EXPECT_NEAR(busy_ms(two_by_two, 100), 1e-3 * (100 * 200 + 50 * 3000), 1e-9);
  two_by_two.algorithm = AllReduceAlgorithm::ring;
  EXPECT_NEAR(busy_ms(two_by_two, 100), 1e-3 * (75 * 200 + 75 * 3000), 1e-9)
      << "one rank of two sends to the other host";
  EXPECT_EQ(busy_ms(topology(1, 1, AllReduceAlgorithm::ring), 100), 0);
}

/// The rows of the table in docs/design/sharded-optimizer.md: bytes that a host sends for each parameter, times 2.
TEST(GradientSumTest, AShardedOptimizerScattersGradientsAndGathersWeights) {
  const auto sent = [](bool bf16_weights, GradientWire wire, OptimizerPlacement optimizer) {
    Topology levels = topology(2, 2, AllReduceAlgorithm::two_level);
    levels.wire = wire, levels.optimizer = optimizer, levels.bf16_weights = bf16_weights;
    return host_megabytes(levels, 4) * 2;
  };
  EXPECT_DOUBLE_EQ(sent(true, GradientWire::f32, OptimizerPlacement::replicated), 8);
  EXPECT_DOUBLE_EQ(sent(true, GradientWire::f32, OptimizerPlacement::sharded), 6);
  EXPECT_DOUBLE_EQ(sent(true, GradientWire::bf16, OptimizerPlacement::sharded), 4);
  EXPECT_DOUBLE_EQ(sent(false, GradientWire::f32, OptimizerPlacement::sharded), 8);

  Topology levels = topology(4, 2, AllReduceAlgorithm::two_level);
  const double whole = sum_ms(levels, 100);
  levels.optimizer = OptimizerPlacement::sharded;
  EXPECT_DOUBLE_EQ(sum_ms(levels, 100), whole / 2);
  EXPECT_DOUBLE_EQ(gather_ms(levels, 100), 3 * levels.between.message_ms(50 / 4.0));
  levels.between.busy_ms_per_gb = 1000;
  EXPECT_DOUBLE_EQ(gather_busy_ms(levels, 100), 3 / 4.0 * 50 / 2) << "of one of two ranks";
  levels.hosts = 1;
  EXPECT_EQ(gather_ms(levels, 100), 0);
  EXPECT_EQ(weights_megabytes(levels, 100), 0) << "one host keeps the whole state";
}

TEST(GradientSumTest, TwoLevelsSendLessBetweenHosts) {
  EXPECT_DOUBLE_EQ(host_megabytes(topology(2, 2, AllReduceAlgorithm::two_level), 243.5), 243.5);
  EXPECT_DOUBLE_EQ(rank_megabytes(topology(2, 2, AllReduceAlgorithm::two_level), 100), 100 + 50);
  EXPECT_EQ(host_megabytes(topology(1, 4, AllReduceAlgorithm::ring), 100), 0);
}

}  // namespace
}  // namespace babelring::insight
