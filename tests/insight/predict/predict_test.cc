#include "insight/predict/predict.h"

#include <gmock/gmock.h>

#include <chrono>
#include <limits>

#include "base/failure.h"
#include "insight/tables/gpu_profiles.h"

namespace babelring::insight {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

RankRecord record() {
  RankRecord made;
  made.unit = "target tokens";
  made.size = 1000;
  made.times = {{"forward", 500, 20},   {"forward", 1000, 40},  {"backward", 500, 40},
                {"backward", 1000, 80}, {"optimizer", 500, 10}, {"optimizer", 1000, 10}};
  made.buckets = even_buckets(25'000'000, 10);
  return made;
}

RunSetup setup(int hosts, int ranks_per_host, double gbit) {
  RunSetup made{.topology = {.hosts = hosts, .ranks_per_host = ranks_per_host}, .updates = 20};
  made.topology.inside.gbit_per_s = made.topology.between.gbit_per_s = gbit;
  return made;
}

TEST(PredictTest, OneRankTakesTheSumOfItsParts) {
  const Prediction one = predict(record(), setup(1, 1, 10), 1);
  EXPECT_NEAR(one.step_ms.mean, 40 + 80 + 10, 1e-9);
  EXPECT_NEAR(one.parts.total(), one.step_ms.mean, 1e-9);
  EXPECT_NEAR(one.size_per_s, 1000 / 0.130, 1e-6);
  EXPECT_NEAR(one.efficiency, 1, 1e-12);
  EXPECT_EQ(one.host_megabytes, 0);
}

TEST(PredictTest, EqualRanksOnInfiniteLinksAreAsOne) {
  const Prediction many = predict(record(), setup(4, 2, std::numeric_limits<double>::infinity()), 1);
  EXPECT_NEAR(many.step_ms.mean, 130, 1e-9);
  EXPECT_NEAR(many.efficiency, 1, 1e-9);
  EXPECT_NEAR(many.parts.exposed_communication, 0, 1e-9);
}

TEST(PredictTest, CrowdingCountsOnlyForRanksWithCopiesOfTheirOwn) {
  RankRecord crowded = record();
  crowded.calibration.crowding = 1.2;
  RunSetup two = setup(1, 2, std::numeric_limits<double>::infinity());
  EXPECT_NEAR(predict(crowded, two, 1).step_ms.mean, 1.2 * 130, 1e-9);
  two.topology.algorithm = AllReduceAlgorithm::shared_memory;
  EXPECT_NEAR(predict(crowded, two, 1).step_ms.mean, 40 + 80 + 10 / 2.0, 1e-9);
}

TEST(PredictTest, ProcessorTimeOfMessagesSlowsBackwardByItsShare) {
  RunSetup two = setup(2, 1, 10);
  two.topology.between.busy_ms_per_gb = 300;
  const auto backward = [&](double share) {
    RankRecord calibrated = record();
    calibrated.calibration.busy_share = share;
    return predict(calibrated, two, 1).parts.backward;
  };
  EXPECT_NEAR(backward(0), 80, 1e-9);
  EXPECT_GT(backward(1), backward(0) + 5);
  EXPECT_GT(backward(2), backward(1) + 5);
}

TEST(PredictTest, JitterOfManyRanksTakesTheSlowest) {
  RankRecord jittered = record();
  jittered.jitter = {0.9, 1.0, 1.1};
  RunSetup wide = setup(1, 64, std::numeric_limits<double>::infinity());
  wide.updates = 200;
  const Prediction many = predict(jittered, wide, 1);
  EXPECT_NEAR(many.step_ms.median, 1.1 * 120 + 10, 1.5);
  EXPECT_GT(many.parts.waiting_for_slowest, 5);
  EXPECT_LT(many.efficiency, 0.95);
  EXPECT_EQ(predict(jittered, wide, 1).step_ms.mean, many.step_ms.mean) << "equal seeds give equal results";
  EXPECT_NE(predict(jittered, wide, 2).step_ms.mean, many.step_ms.mean);
}

TEST(PredictTest, AStragglerSlowsAllRanks) {
  RunSetup slow = setup(1, 4, std::numeric_limits<double>::infinity());
  slow.straggler = 25;
  const Prediction found = predict(record(), slow, 1);
  EXPECT_NEAR(found.step_ms.median, 1.25 * 120 + 10 + 2.5 / 4, 2.5);
}

TEST(PredictTest, AccumulationSendsTheSameBytesForMoreTokens) {
  RunSetup four = setup(2, 1, 5);
  const Prediction once = predict(record(), four, 1);
  four.accumulate = 4;
  const Prediction accumulated = predict(record(), four, 1);
  EXPECT_EQ(accumulated.host_megabytes, once.host_megabytes);
  EXPECT_NEAR(accumulated.step_ms.mean, once.step_ms.mean + 3 * 120, 1e-6);
  EXPECT_GT(accumulated.size_per_s, once.size_per_s);
  EXPECT_NEAR(accumulated.parts.exposed_communication, once.parts.exposed_communication, 1e-6);
}

TEST(PredictTest, RealSizesOfUpdatesCount) {
  RunSetup uneven = setup(2, 1, std::numeric_limits<double>::infinity());
  uneven.sizes = {{500, 1000}};
  const Prediction found = predict(record(), uneven, 1);
  EXPECT_NEAR(found.step_ms.mean, 130, 1e-9);
  EXPECT_NEAR(found.size_per_s, 1500 / 0.130, 1e-6);
  EXPECT_NEAR(found.parts.waiting_for_slowest, 60.0 / 2, 1e-9);
  uneven.sizes = {{1, 2, 3}};
  EXPECT_THROW(predict(record(), uneven, 1), UsageFailure);
}

TEST(PredictTest, OneCopyUpdatesItsShareAndOverlapsNothing) {
  RunSetup one_copy = setup(1, 4, 800);
  one_copy.topology.algorithm = AllReduceAlgorithm::shared_memory;
  const Prediction found = predict(record(), one_copy, 1);
  EXPECT_NEAR(found.parts.optimizer, 10.0 / 4, 1e-9);
  EXPECT_NEAR(found.parts.exposed_communication, found.communication_ms, 1e-9);
  one_copy.topology.hosts = 2;
  EXPECT_THROW(predict(record(), one_copy, 1), UsageFailure);
}

TEST(PredictTest, AShardedOptimizerWaitsForWeightsInForward) {
  RunSetup two = setup(2, 1, 1);  // an all-reduce of 100 MB takes 800 ms
  const Prediction replicated = predict(record(), two, 1);
  two.topology.optimizer = OptimizerPlacement::sharded;
  const Prediction sharded = predict(record(), two, 1);
  EXPECT_NEAR(sharded.parts.optimizer, 10.0 / 2, 1e-9);
  EXPECT_NEAR(sharded.host_megabytes, 0.75 * replicated.host_megabytes, 1e-9);
  EXPECT_NEAR(sharded.communication_ms, 0.75 * replicated.communication_ms, 1e-9);
  EXPECT_NEAR(sharded.parts.total(), sharded.step_ms.mean, 1e-9);
  // The first update has no gather to wait for. In the others hardly any of the 40 ms of forward hide gathers of 200
  // ms.
  EXPECT_NEAR(sharded.parts.exposed_communication, 400 - 72 + (200 - 36) * 19.0 / 20, 2);
  two.accumulate = 4;  // weights are read in the first of four forward passes
  EXPECT_NEAR(predict(record(), two, 1).parts.exposed_communication, sharded.parts.exposed_communication, 0.01);
  two.topology.ranks_per_host = 2;
  EXPECT_THROW(predict(record(), two, 1), UsageFailure) << "a ring of several ranks of a host";
  two.topology.algorithm = AllReduceAlgorithm::two_level;
  EXPECT_GT(predict(record(), two, 1).step_ms.mean, 0);
  two.topology.hosts = 1;
  two.topology.algorithm = AllReduceAlgorithm::shared_memory;
  EXPECT_NEAR(predict(record(), two, 1).parts.optimizer, 10.0 / 2, 1e-9) << "one host keeps the whole state";
}

TEST(PredictTest, TheIntervalFollowsFromTheErrors) {
  RankRecord uncertain = record();
  uncertain.compute_error = 0.1;
  uncertain.compute_comparisons = 3;
  RunSetup two = setup(2, 1, 0.5);
  const Prediction compute = predict(uncertain, two, 1);
  two.topology.between.rate_error = 0.2;
  const Prediction both = predict(uncertain, two, 1);
  EXPECT_LT(compute.low_ms, compute.step_ms.median);
  EXPECT_GT(compute.high_ms, compute.step_ms.median);
  EXPECT_LT(both.low_ms, compute.low_ms);
  EXPECT_GT(both.high_ms, compute.high_ms);
  EXPECT_THAT(both.warnings, Not(Contains(HasSubstr("is unknown"))));
  EXPECT_THAT(predict(record(), two, 1).warnings, Contains(HasSubstr("the error of the compute times is unknown")));
}

TEST(PredictTest, WarnsOfSizesAlgorithmsAndBoundSteps) {
  RunSetup far = setup(2, 1, 0.1);
  far.sizes = {{3000}};
  far.topology.algorithm = AllReduceAlgorithm::tree;
  const auto warnings = predict(record(), far, 1).warnings;
  EXPECT_THAT(warnings, Contains(HasSubstr("size 3000 is 3.0 times the largest recorded one, 1000")));
  EXPECT_THAT(warnings, Contains(HasSubstr("does not offer the algorithm tree")));
  EXPECT_THAT(warnings, Contains(HasSubstr("tests the traffic, not the compute times")));
  far.sizes = {{200}};
  EXPECT_THAT(predict(record(), far, 1).warnings, Contains(HasSubstr("2.5 times smaller than the smallest")));
}

TEST(PredictTest, WarnsOfManyMoreRanksThanThoseTheErrorRestsOn) {
  RankRecord compared = record();
  const auto warnings = [&](int hosts) { return predict(compared, setup(hosts, 2, 0.1), 1).warnings; };
  EXPECT_THAT(warnings(64), Not(Contains(HasSubstr("rests on runs"))));
  compared.step_ranks = 4;
  EXPECT_THAT(warnings(16), Not(Contains(HasSubstr("rests on runs"))));
  EXPECT_THAT(warnings(17), Contains("34 ranks, but the error rests on runs of up to 4: it may be larger"));
}

TEST(PredictTest, RefusesZeros) {
  const auto refused = [](auto change) {
    RunSetup wrong = setup(2, 2, 10);
    change(wrong);
    EXPECT_THROW(predict(record(), wrong, 1), UsageFailure);
  };
  refused([](RunSetup& s) { s.topology.hosts = 0; });
  refused([](RunSetup& s) { s.topology.ranks_per_host = 0; });
  refused([](RunSetup& s) { s.topology.between.gbit_per_s = 0; });
  refused([](RunSetup& s) { s.topology.inside.latency_us = -1; });
  refused([](RunSetup& s) { s.accumulate = 0; });
  refused([](RunSetup& s) { s.updates = 0; });
  refused([](RunSetup& s) { s.bucket_mb = -1; });
  refused([](RunSetup& s) { s.loader.threads = 0; });
  refused([](RunSetup& s) { s.straggler = -3; });
  RankRecord without = record();
  without.buckets.clear();
  EXPECT_THROW(predict(without, setup(2, 2, 10), 1), UsageFailure);
}

TEST(PredictTest, TenThousandUpdatesOf64RanksAreFast) {
  RankRecord jittered = record();
  for (int i = 0; i < 100; ++i) jittered.jitter.push_back(0.95 + 0.001 * i);
  jittered.make_batch_ms = {5, 6, 7};
  RunSetup large = setup(8, 8, 100);
  large.updates = 10'000;
  const auto begin = std::chrono::steady_clock::now();
  const Prediction found = predict(jittered, large, 1);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  EXPECT_GT(found.step_ms.median, 130);
  RecordProperty("seconds", std::to_string(seconds));
  std::printf("10,000 updates of 64 ranks: %.2f s\n", seconds);
}

/// The published run: 60,880,896 parameters, f32, a ring over 2 hosts with 2 ranks each.
RankRecord published_record() {
  RankRecord published;
  published.unit = "source and target tokens";
  published.size = 36437.74 * 1.713 / 4;
  // Published V100 rates give 0.07 to 0.2 s of compute.
  published.times = {{"forward", published.size, 45}, {"backward", published.size, 90}};
  published.compute_error = 0.48;
  published.compute_comparisons = 1;
  published.buckets = even_buckets(60'880'896, 25);
  return published;
}

RunSetup published_setup(double megabytes_per_s) {
  RunSetup made = setup(2, 2, 100);
  made.topology.between = {.gbit_per_s = megabytes_per_s * 8e-3};
  return made;
}

TEST(PredictTest, ThePublishedRunIsPredicted) {
  RunSetup photographed = published_setup((217.901 + 231.234) / 2);
  photographed.topology.between.rate_error = 0.03;
  const Prediction found = predict(published_record(), photographed, 1);
  EXPECT_NEAR(found.host_megabytes, 365.29, 0.01);
  EXPECT_NEAR(found.step_ms.median, 1713, 0.05 * 1713);
  EXPECT_LT(found.low_ms, 1713);
  EXPECT_GT(found.high_ms, 1713);
  EXPECT_THAT(found.warnings, Contains(HasSubstr("tests the traffic, not the compute times")));
  // Two GPUs in one host are faster than four in two, as the run's author found.
  const Prediction one_host = predict(published_record(), setup(1, 2, 100), 1);
  EXPECT_GT(one_host.size_per_s, found.size_per_s);
}

TEST(PredictTest, CommunicationOfThePublishedRunEqualsItsTraffic) {
  struct Row {
    AllReduceAlgorithm algorithm;
    GradientWire wire;
    double megabytes_per_s, communication_s;
  };
  for (const Row& row : {Row{AllReduceAlgorithm::ring, GradientWire::f32, 217.901, 1.6764},
                         Row{AllReduceAlgorithm::ring, GradientWire::f32, 231.234, 1.5797},
                         Row{AllReduceAlgorithm::ring, GradientWire::f32, 1250, 0.2922},
                         Row{AllReduceAlgorithm::ring, GradientWire::f32, 3125, 0.1169},
                         Row{AllReduceAlgorithm::ring, GradientWire::bf16, 217.901, 0.8382},
                         Row{AllReduceAlgorithm::ring, GradientWire::bf16, 225, 0.8117},
                         Row{AllReduceAlgorithm::two_level, GradientWire::f32, 217.901, 1.1176},
                         Row{AllReduceAlgorithm::two_level, GradientWire::f32, 3125, 0.0779},
                         Row{AllReduceAlgorithm::two_level, GradientWire::bf16, 125, 0.9741}}) {
    RunSetup what_if = published_setup(row.megabytes_per_s);
    what_if.topology.inside.gbit_per_s = std::numeric_limits<double>::infinity();
    what_if.topology.algorithm = row.algorithm;
    what_if.topology.wire = row.wire;
    const Prediction found = predict(published_record(), what_if, 1);
    EXPECT_NEAR(found.communication_ms / 1000, row.communication_s, 0.01 * row.communication_s);
  }
}

}  // namespace
}  // namespace babelring::insight
