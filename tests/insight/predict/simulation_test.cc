#include "insight/predict/simulation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/failure.h"

namespace babelring::insight {
namespace {

/// A random update of a few ranks and sums.
struct Case {
  std::vector<RankTimes> times;
  SumPlan plan;
};

Case random_case(std::mt19937_64& random) {
  std::uniform_real_distribution<double> uniform(0, 1);
  Case made;
  made.times.resize(1 + random() % 5);
  for (RankTimes& rank : made.times) {
    rank = {.transfer = uniform(random),
            .forward = 10 * uniform(random),
            .backward = 20 * uniform(random),
            .optimizer = uniform(random),
            .other = uniform(random)};
  }
  double ready = 0;
  for (std::size_t i = random() % 6; i > 0; --i) {
    ready += (1 - ready) * uniform(random);
    const double ms = 8 * uniform(random);
    made.plan.sums.push_back({ready, ms, ms * uniform(random)});
  }
  double needed = 0;
  for (std::size_t i = random() % 4; i > 0; --i) {
    needed += (1 - needed) * uniform(random);
    const double ms = 4 * uniform(random);
    made.plan.gathers.push_back({needed, ms, ms * uniform(random)});
  }
  made.plan.slowdown = 1 + uniform(random);
  made.plan.processors = 2;
  return made;
}

std::vector<RankOutcome> outcomes(const Case& made, int updates = 3) {
  Simulation simulation(made.times.size(), {});
  std::vector<RankOutcome> last;
  for (int i = 0; i < updates; ++i) {
    const auto now = simulation.update(made.times, made.plan);
    last.assign(now.begin(), now.end());
  }
  return last;
}

TEST(SimulationTest, OneRankWithoutSumsTakesTheSumOfItsParts) {
  Case made{{{.transfer = 0.1, .forward = 3.7, .backward = 7.3, .optimizer = 0.9, .other = 0.013}}, {}};
  const RankOutcome out = outcomes(made)[0];
  EXPECT_NEAR(out.end - out.begin, 0.1 + 3.7 + 7.3 + 0.9 + 0.013, 1e-9);
}

TEST(SimulationTest, OneBucketHasClosedForms) {
  // Ready half way through a backward of 10 ms.
  const auto step = [](double sum_ms, double slowdown, double busy_ms) {
    Case made{{{.forward = 5, .backward = 10, .optimizer = 1}, {.forward = 5, .backward = 10, .optimizer = 1}}, {}};
    made.plan.sums = {{0.5, sum_ms, busy_ms}};
    made.plan.slowdown = slowdown;
    const RankOutcome out = outcomes(made)[0];
    return out.end - out.begin;
  };
  EXPECT_NEAR(step(3, 1, 0), 16, 1e-9) << "hidden";
  EXPECT_NEAR(step(8, 1, 0), 5 + 5 + 8 + 1, 1e-9) << "3 ms exposed";
  EXPECT_NEAR(step(4, 2, 0), 16 + 2, 1e-9) << "4 ms at half speed lose 2 ms";
  EXPECT_NEAR(step(4, 1, 2), 16 + 2, 1e-9) << "2 ms of one thread's time";
}

TEST(SimulationTest, SumsWaitForTheEngineAndTheSlowestRank) {
  Case made{{{.forward = 5, .backward = 10}, {.forward = 9, .backward = 10}}, {}};
  made.plan.sums = {{0.5, 4}, {0.6, 4}, {1, 2}};
  Simulation simulation(2, {});
  const auto out = simulation.update(made.times, made.plan);
  const auto sums = simulation.sums();
  EXPECT_DOUBLE_EQ(sums[0].begin, 14);
  EXPECT_DOUBLE_EQ(sums[1].asked, 15);
  EXPECT_DOUBLE_EQ(sums[1].begin, 18);
  EXPECT_DOUBLE_EQ(sums[2].begin, 22);
  EXPECT_DOUBLE_EQ(out[0].parts.exposed_communication, 24 - 15);
  EXPECT_DOUBLE_EQ(out[0].parts.waiting_for_slowest, 4);
  EXPECT_DOUBLE_EQ(out[1].parts.exposed_communication, 24 - 19);
  EXPECT_DOUBLE_EQ(out[1].parts.waiting_for_slowest, 0);
}

TEST(SimulationTest, ForwardWaitsForTheWeightsThatItReads) {
  Case made{
      {{.forward = 10, .backward = 10, .optimizer = 1, .other = 1}, {.forward = 10, .backward = 10, .optimizer = 3}},
      {}};
  made.plan.gathers = {{0, 4}, {0.5, 3}, {0.6, 9}};
  Simulation simulation(2, {});
  EXPECT_DOUBLE_EQ(simulation.update(made.times, made.plan)[0].end, 22) << "no gathers before the first update";
  const auto gathers = simulation.gathers();
  EXPECT_DOUBLE_EQ(gathers[0].begin, 23) << "when the slower rank has finished its optimizer";
  EXPECT_DOUBLE_EQ(gathers[2].end, 23 + 4 + 3 + 9);
  const auto out = simulation.update(made.times, made.plan);
  // Rank 0 waits from 22 to 27, computes to 32, where the second gather has ended, and to 33, and waits until 39.
  EXPECT_DOUBLE_EQ(out[0].parts.exposed_communication, 5 + 6);
  EXPECT_DOUBLE_EQ(out[0].parts.forward, 10);
  EXPECT_DOUBLE_EQ(out[0].end, 39 + 4 + 10 + 2);
  EXPECT_DOUBLE_EQ(out[1].parts.exposed_communication, 4 + 6);
  EXPECT_DOUBLE_EQ(out[0].parts.waiting_for_slowest, 0);
  made.plan.gathers.pop_back();
  EXPECT_THROW(simulation.update(made.times, made.plan), Failure);
}

TEST(SimulationTest, GathersSlowForwardByTheirProcessorTime) {
  Case made{{{.forward = 10}, {.forward = 10}}, {}};
  made.plan.gathers = {{1, 8, 4}};
  made.plan.processors = 1;
  const RankOutcome out = outcomes(made)[0];
  EXPECT_DOUBLE_EQ(out.parts.forward, 8 + 6) << "8 ms at half speed";
  EXPECT_DOUBLE_EQ(out.parts.exposed_communication, 0);
}

TEST(SimulationTest, EqualRanksWithoutNetworkAreAsOne) {
  std::mt19937_64 random(11);
  for (int i = 0; i < 200; ++i) {
    Case made = random_case(random);
    for (auto& sum : made.plan.sums) sum.ms = sum.busy_ms = 0;
    for (auto& gather : made.plan.gathers) gather.ms = gather.busy_ms = 0;
    made.times.resize(1);
    const RankOutcome alone = outcomes(made)[0];
    made.times.resize(7, made.times[0]);
    for (const RankOutcome& rank : outcomes(made)) {
      EXPECT_NEAR(rank.end, alone.end, 1e-9);
      EXPECT_NEAR(rank.parts.exposed_communication, 0, 1e-9);
    }
  }
}

TEST(SimulationTest, PartsAddUpAndNoResourceIsFasterThanItself) {
  std::mt19937_64 random(12);
  for (int i = 0; i < 500; ++i) {
    const Case made = random_case(random);
    double engine = 0;
    for (const auto& sum : made.plan.sums) engine += sum.ms;
    for (const auto& gather : made.plan.gathers) engine += gather.ms;
    const auto ranks = outcomes(made);
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      const RankOutcome& out = ranks[r];
      const RankTimes& own = made.times[r];
      const double step = out.end - out.begin;
      EXPECT_NEAR(step, out.parts.total(), 1e-9);
      EXPECT_GE(out.parts.exposed_communication, 0);
      EXPECT_GE(out.parts.waiting_for_slowest, 0);
      EXPECT_LE(out.parts.waiting_for_slowest, out.parts.exposed_communication + 1e-12);
      EXPECT_GE(step, own.transfer + own.forward + own.backward + own.optimizer + own.other - 1e-9);
      EXPECT_GE(step, engine - 1e-9);
    }
  }
}

TEST(SimulationTest, FasterSumsAreNeverSlower) {
  std::mt19937_64 random(13);
  for (int i = 0; i < 500; ++i) {
    Case made = random_case(random);
    double before = 0;
    for (const double factor : {0.0, 0.3, 0.7, 1.0, 1.5, 4.0}) {
      Case changed = made;
      for (auto& sum : changed.plan.sums) sum.ms *= factor;
      for (auto& gather : changed.plan.gathers) gather.ms *= factor;
      double end = 0;
      for (const RankOutcome& rank : outcomes(changed)) end = std::max(end, rank.end);
      EXPECT_GE(end, before - 1e-9) << "case " << i << ", factor " << factor;
      before = end;
    }
  }
}

TEST(SimulationTest, TheOrderOfRanksDoesNotMatter) {
  std::mt19937_64 random(14);
  for (int i = 0; i < 200; ++i) {
    Case made = random_case(random);
    const auto sorted_ends = [](const Case& one) {
      std::vector<double> ends;
      for (const RankOutcome& rank : outcomes(one)) ends.push_back(rank.end);
      std::ranges::sort(ends);
      return ends;
    };
    const auto before = sorted_ends(made);
    std::ranges::shuffle(made.times, random);
    EXPECT_EQ(sorted_ends(made), before);
  }
}

TEST(SimulationTest, TheQueueHidesWhatItCan) {
  const auto step = [](RankTimes times, LoaderPlan loader) {
    Simulation simulation(1, loader);
    double begin = 0;
    constexpr int updates = 200, settled = 100;
    for (int i = 0; i < updates; ++i) {
      const RankOutcome out = simulation.update({&times, 1}, {})[0];
      if (i == settled) begin = out.begin;
      if (i == updates - 1) return (out.end - begin) / (updates - settled);
    }
    return 0.0;
  };
  EXPECT_NEAR(step({.make_batch = 9, .forward = 10}, {1, 2}), 10, 1e-9) << "one thread makes batches in time";
  EXPECT_NEAR(step({.make_batch = 30, .forward = 10}, {1, 4}), 30, 1e-9) << "bound by the thread";
  EXPECT_NEAR(step({.make_batch = 30, .forward = 10}, {2, 4}), 15, 1e-9) << "by two threads";
  EXPECT_NEAR(step({.make_batch = 30, .forward = 10}, {8, 8}), 10, 1e-9) << "enough threads";
  EXPECT_NEAR(step({.read = 25, .make_batch = 30, .forward = 10}, {8, 8}), 25, 1e-9) << "bound by the storage";
  EXPECT_NEAR(step({.make_batch = 30, .forward = 10}, {8, 1}), 30, 1e-9)
      << "with one place a batch is begun when the one before is taken";
}

TEST(SimulationTest, RefusesOtherNumbersOfRanks) {
  EXPECT_THROW(Simulation(0, {}), Failure);
  EXPECT_THROW(Simulation(1, {.threads = 0}), Failure);
  Simulation simulation(2, {});
  EXPECT_THROW(simulation.update(std::vector<RankTimes>(3), {}), Failure);
}

}  // namespace
}  // namespace babelring::insight
