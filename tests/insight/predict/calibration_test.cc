#include "insight/predict/predict.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace babelring::insight {
namespace {

RankRecord record_of_100_ms() {
  RankRecord record;
  record.unit = "target tokens";
  record.size = 1000;
  record.times = {{"forward", 1000, 30}, {"backward", 1000, 60}, {"optimizer", 1000, 10}};
  record.jitter = {0.97, 1, 1.03};
  for (int i = 1; i <= 10; ++i) record.buckets.push_back({4, i / 10.0});
  return record;
}

RunSetup setup_of(int hosts, int ranks_per_host, double gbit, GradientWire wire, double bucket_mb) {
  RunSetup setup{.bucket_mb = bucket_mb, .updates = 50};
  setup.topology = {.hosts = hosts,
                    .ranks_per_host = ranks_per_host,
                    .inside = {.gbit_per_s = 40, .busy_ms_per_gb = 100},
                    .between = {.gbit_per_s = gbit, .latency_us = 50, .busy_ms_per_gb = 300},
                    .wire = wire};
  return setup;
}

/// Runs that took as long as the record predicts with this calibration.
std::vector<CalibrationRun> runs_with(const Calibration& truth) {
  std::vector<CalibrationRun> runs;
  for (const RunSetup& setup : {setup_of(1, 2, 1, GradientWire::f32, 4), setup_of(1, 2, 1, GradientWire::f32, 1),
                                setup_of(2, 1, 20, GradientWire::f32, 4), setup_of(2, 1, 1, GradientWire::f32, 4),
                                setup_of(2, 1, 1, GradientWire::f32, 1), setup_of(2, 1, 1, GradientWire::bf16, 4),
                                setup_of(2, 1, 0.25, GradientWire::f32, 4), setup_of(2, 2, 1, GradientWire::f32, 4)}) {
    RankRecord record = record_of_100_ms();
    record.calibration = truth;
    const double measured = predict_step_ms(record, setup, 7);
    record.calibration = {};
    runs.push_back({record, setup, measured});
  }
  return runs;
}

double largest_error(std::vector<CalibrationRun>& runs, const Calibration& calibration) {
  double largest = 0;
  for (CalibrationRun& run : runs) {
    run.record.calibration = calibration;
    largest = std::max(largest, std::abs(predict_step_ms(run.record, run.setup, 1) / run.measured_ms - 1));
  }
  return largest;
}

TEST(CalibrationTest, FindsHowRanksSlowEachOtherDown) {
  const Calibration truth{
      .crowding = 1.15, .busy_share = 1.5, .inside_share = 0.5, .between_share = 0.8, .sum_overhead_ms = 0.5};
  std::vector<CalibrationRun> runs = runs_with(truth);
  EXPECT_GT(largest_error(runs, {}), 0.15);
  const Calibration found = calibrate(runs, 1);
  EXPECT_LT(largest_error(runs, found), 0.03);
  EXPECT_NEAR(found.between_share, 0.8, 0.08);
  EXPECT_NEAR(found.crowding, 1.15, 0.08);
}

TEST(CalibrationTest, PredictsARunThatItHasNotSeen) {
  std::vector<CalibrationRun> runs = runs_with({.crowding = 1.1, .between_share = 0.7});
  std::vector<CalibrationRun> left_out = {runs.back()};
  runs.pop_back();
  EXPECT_LT(largest_error(left_out, calibrate(runs, 1)), 0.04);
}

TEST(CalibrationTest, LeavesAloneWhatTheRunsDoNotTell) {
  std::vector<CalibrationRun> runs = {{record_of_100_ms(), setup_of(1, 1, 1, GradientWire::f32, 4), 100}};
  for (const Calibration& found : {calibrate(runs, 1), calibrate({}, 1)}) {
    EXPECT_EQ(found.crowding, 1);
    EXPECT_EQ(found.between_share, 1);
    EXPECT_EQ(found.inside_share, 1);
    EXPECT_EQ(found.slowdown, 1);
    EXPECT_EQ(found.busy_share, 1);
    EXPECT_EQ(found.sum_overhead_ms, 0);
  }
}

}  // namespace
}  // namespace babelring::insight
