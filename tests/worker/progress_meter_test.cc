#include "worker/progress_meter.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace babelring {
namespace {

StepRecord measured(ProgressMeter& meter, std::int64_t update, double epoch, std::int64_t tokens) {
  StepRecord step{.update = update, .epoch = epoch, .update_target_tokens = tokens};
  meter.measure(step);
  return step;
}

TEST(ProgressMeter, ComputesTheFractionDoneForEachKindOfLimit) {
  ProgressMeter updates("200u", 0);
  updates.begin({}, 0);
  EXPECT_DOUBLE_EQ(measured(updates, 50, 9, 1000).fraction_done, 0.25);

  ProgressMeter epochs("20e", 0);
  epochs.begin({}, 0);
  EXPECT_DOUBLE_EQ(measured(epochs, 50, 15, 1000).fraction_done, 0.75);

  ProgressMeter tokens("4000t", 0);
  tokens.begin({.update = 7, .epoch = 1, .target_tokens = 1000}, 3);
  measured(tokens, 8, 1, 500);
  EXPECT_DOUBLE_EQ(measured(tokens, 9, 1, 500).fraction_done, 0.5);

  ProgressMeter minutes("60e", 20);
  minutes.begin({.update = 10, .epoch = 3, .target_tokens = 5}, 15);
  const StepRecord step = measured(minutes, 11, 3.5, 1);
  EXPECT_GE(step.fraction_done, 0.75);  // 15 of 20 minutes, though only 3.5 of 60 epochs
  EXPECT_LE(step.fraction_done, 1);
}

TEST(ProgressMeter, ExtrapolatesFromThePaceSinceBegin) {
  ProgressMeter meter("100u", 0);
  meter.begin({.update = 20, .epoch = 0, .target_tokens = 0}, 500);  // what came before was maybe another machine
  StepRecord step{.update = 20};
  meter.measure(step);
  EXPECT_EQ(step.seconds_left, 0) << "nothing is known of the pace yet";
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  EXPECT_GE(measured(meter, 40, 0, 0).seconds_left, 3 * 0.03);  // 20 updates took 30 ms or more, 60 are left
  EXPECT_EQ(measured(meter, 100, 0, 0).seconds_left, 0);
}

TEST(ProgressMeter, DescribesTheLimitsOfTheTraining) {
  EXPECT_EQ(ProgressMeter("100000u", 0).end(), "100,000 updates");
  EXPECT_EQ(ProgressMeter("1e", 0).end(), "1 epoch");
  EXPECT_EQ(ProgressMeter("2.5e", 0).end(), "2.5 epochs");
  EXPECT_EQ(ProgressMeter("50Mt", 0).end(), "50,000,000 target tokens");
  EXPECT_EQ(ProgressMeter("60e", 55).end(), "60 epochs or 55 minutes");
}

}  // namespace
}  // namespace babelring
