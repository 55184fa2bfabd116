#include "nmt/optim/schedule.h"

#include <gtest/gtest.h>

#include <cmath>

namespace babelring {
namespace {

Progress at(std::int64_t update, double epoch = 0, std::int64_t tokens = 0) {
  return {.update = update, .epoch = epoch, .target_tokens = tokens};
}

TEST(Interval, ReadsUnits) {
  EXPECT_EQ(Interval::parse("4000u")->fraction(at(1000)), 0.25);
  EXPECT_EQ(Interval::parse("4000")->fraction(at(1000)), 0.25);
  EXPECT_EQ(Interval::parse("2e")->fraction(at(7, 0.5)), 0.25);
  EXPECT_EQ(Interval::parse("50Mt")->fraction(at(7, 0.5, 25'000'000)), 0.5);
  EXPECT_EQ(Interval::parse("1.5kt")->fraction(at(0, 0, 3000)), 2.0);
  EXPECT_EQ(Interval::parse("1000000Gt")->value(), 1e15);
  EXPECT_EQ(Interval::parse("5%")->fraction({.fraction = 0.1}), 2.0);
}

TEST(Interval, KeepsItsText) {
  for (const char* text : {"4000u", "4000", "2.50e", "1.5kt", "0"}) EXPECT_EQ(Interval(text).text(), text);
  EXPECT_EQ(Interval::parse("1\n").error(),
            "expected a number of updates (4000u), epochs (2e) or target tokens (50Mt), found '1\\x0a'");
}

TEST(Interval, RejectsInvalidText) {
  for (const char* text : {"", "u", "-1u", "4000x", "4000 u", "nan", "inf", "1000000000000001u", "1000001Gt"}) {
    const Result<Interval> interval = Interval::parse(text);
    ASSERT_FALSE(interval.ok()) << text;
    EXPECT_NE(interval.error().find(std::string("found '") + text + "'"), std::string::npos) << interval.error();
  }
}

TEST(Interval, CountsCompleteIntervals) {
  const Interval hundred = "100u";
  EXPECT_EQ(hundred.times(at(99)), 0);
  EXPECT_EQ(hundred.times(at(100)), 1);
  EXPECT_EQ(hundred.times(at(250)), 2);
  EXPECT_EQ(Interval::parse("0u")->times(at(250)), 0);
}

TEST(Schedule, InverseSquareRootPeaksAtTheEndOfWarmUp) {
  const Schedule schedule({.schedule = Decay::inverse_sqrt, .learning_rate = 0.001, .warm_up = "4000u"});
  EXPECT_DOUBLE_EQ(schedule.learning_rate(at(1)), 0.001 / 4000);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(at(4000)), 0.001);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(at(16000)), 0.0005);
  // Vaswani et al. 2017: d^-0.5 min(t^-0.5, t w^-1.5). The ratio of two updates does not depend on the peak.
  const auto vaswani = [](double t) {
    return std::pow(512, -0.5) * std::min(std::pow(t, -0.5), t * std::pow(4000, -1.5));
  };
  EXPECT_NEAR(schedule.learning_rate(at(9000)) / schedule.learning_rate(at(100)), vaswani(9000) / vaswani(100), 1e-12);
}

TEST(Schedule, LinearDecaysToTheFinalFraction) {
  const Schedule schedule(
      {.schedule = Decay::linear, .learning_rate = 1, .warm_up = "10u", .decay = "110u", .final_fraction = 0.1});
  EXPECT_DOUBLE_EQ(schedule.learning_rate(at(5)), 0.5);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(at(10)), 1);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(at(60)), 0.55);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(at(110)), 0.1);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(at(1000)), 0.1);
}

TEST(Schedule, CosineDecaysToTheFinalFraction) {
  const Schedule schedule(
      {.schedule = Decay::cosine, .learning_rate = 1, .warm_up = "10u", .decay = "110u", .final_fraction = 0.1});
  EXPECT_DOUBLE_EQ(schedule.learning_rate(at(5)), 0.5);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(at(10)), 1);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(at(35)), 0.1 + 0.9 * (1 + std::sqrt(0.5)) / 2);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(at(60)), 0.55);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(at(110)), 0.1);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(at(1000)), 0.1);
}

TEST(Schedule, WsdFallsInTheCoolDownOnly) {
  const Schedule schedule({.schedule = Decay::wsd,
                           .learning_rate = 1,
                           .warm_up = "10u",
                           .decay = "110u",
                           .cool_down = "40u",
                           .final_fraction = 0.1});
  EXPECT_DOUBLE_EQ(schedule.learning_rate(at(5)), 0.5);
  for (const int update : {10, 50, 70}) EXPECT_DOUBLE_EQ(schedule.learning_rate(at(update)), 1) << update;
  EXPECT_DOUBLE_EQ(schedule.learning_rate(at(80)), 1 - 0.9 * std::sqrt(0.25));
  EXPECT_DOUBLE_EQ(schedule.learning_rate(at(110)), 0.1);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(at(1000)), 0.1);
  // A cool-down longer than the training begins after the warm-up.
  const Schedule whole(
      {.schedule = Decay::wsd, .learning_rate = 1, .warm_up = "10u", .decay = "110u", .cool_down = "500u"});
  EXPECT_DOUBLE_EQ(whole.learning_rate(at(35)), 0.5);
  // Alone, in percent as by default, it is a part of decay.
  const Schedule part({.schedule = Decay::wsd, .learning_rate = 1, .warm_up = "10u", .decay = "200u"});
  EXPECT_DOUBLE_EQ(part.learning_rate(at(160)), 1);
  EXPECT_DOUBLE_EQ(part.learning_rate(at(170)), 0.5);
}

/// Percent are those of fraction_done(): here 20 of 50 minutes, or 300 of 400 updates.
TEST(Schedule, InPercentFollowsTheLimitThatTrainingReachesFirst) {
  const auto done = [](std::int64_t update, double minutes) {
    Progress progress = at(update);
    progress.fraction = fraction_done("400u", 50, progress, minutes);
    return progress;
  };
  EXPECT_DOUBLE_EQ(done(100, 20).fraction, 0.4);
  EXPECT_DOUBLE_EQ(done(300, 20).fraction, 0.75);
  EXPECT_DOUBLE_EQ(done(399, 51).fraction, 1);
  EXPECT_DOUBLE_EQ(fraction_done("400u", 0, at(100), 20), 0.25) << "no limit of time";
  const Schedule schedule({.schedule = Decay::linear, .learning_rate = 1, .warm_up = "10%", .decay = "100%"});
  EXPECT_DOUBLE_EQ(schedule.learning_rate(done(20, 0)), 0.5);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(done(20, 5)), 1);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(done(20, 27.5)), 0.5);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(done(20, 60)), 0);
}

TEST(Schedule, ConstantWithoutWarmUpStartsAtItsRate) {
  const Schedule schedule({.schedule = Decay::constant, .learning_rate = 0.5, .warm_up = "0u"});
  EXPECT_DOUBLE_EQ(schedule.learning_rate(at(1)), 0.5);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(at(1000)), 0.5);
}

TEST(Schedule, RefusesDifferentUnitsOfWarmUpAndDecay) {
  for (const Decay decay : {Decay::linear, Decay::cosine}) {
    try {
      Schedule({.schedule = decay, .warm_up = "2e", .decay = "100u"});
      FAIL() << "accepted";
    } catch (const ConfigError& error) {
      EXPECT_EQ(error.key, "optimizer.decay");
      EXPECT_EQ(error.detail, "optimizer.decay: '100u' must have the unit of optimizer.warm_up '2e'");
    }
  }
}

TEST(Schedule, RefusesACoolDownInAnotherUnit) {
  try {
    Schedule({.schedule = Decay::wsd, .warm_up = "2e", .decay = "10e", .cool_down = "20u"});
    FAIL() << "accepted";
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.key, "optimizer.cool_down");
    EXPECT_EQ(error.detail, "optimizer.cool_down: '20u' must have the unit of optimizer.decay '10e', or be in percent");
  }
}

TEST(ScheduleOptions, SaysThatADecayInPercentIsOverBeforeTraining) {
  const auto said = [](const char* decay) {
    return ScheduleOptions{.schedule = Decay::linear, .warm_up = "5%", .decay = decay}.zero_rate_at_end("300u", {}, {},
                                                                                                        0);
  };
  EXPECT_EQ(said("100%"), "");
  EXPECT_EQ(said("80%"), "optimizer.decay 80% ends before training: the last 20 % have learning rate 0");
}

TEST(ScheduleOptions, SaysThatTrainingEndsBeforeTheWarmUp) {
  const ScheduleOptions options{.learning_rate = 0.0007, .warm_up = "4000u"};
  for (const char* enough : {"0u", "4000u", "100000u", "2e", "1Mt"}) {
    EXPECT_EQ(options.unfinished_warm_up(enough), "") << enough;
  }
  EXPECT_EQ(
      options.unfinished_warm_up("400u"),
      "training.stop_after 400u comes before the end of optimizer.warm_up, 4000u: the learning rate reaches 0.1 of "
      "its peak, 0.0007");
}

TEST(ScheduleOptions, SaysThatTheDecayIsOverBeforeTraining) {
  const Progress per_update{.update = 1, .epoch = 0.1, .target_tokens = 500};
  ScheduleOptions options{.schedule = Decay::cosine, .warm_up = "10u", .decay = "100u"};
  const auto said = [&](const char* end, std::int64_t now = 0, double minutes = 0) {
    return options.zero_rate_at_end(end, {.update = now}, per_update, minutes);
  };
  EXPECT_EQ(said("300u"),
            "optimizer.decay 100u ends before training.stop_after 300u: the last 200 updates have learning rate 0");
  EXPECT_EQ(said("300u", 250),
            "optimizer.decay 100u ends before training.stop_after 300u: the last 50 updates have learning rate 0");
  EXPECT_EQ(said("300u", 0, 5),
            "optimizer.decay 100u ends before training.stop_after 300u: the last 200 updates, or as many as "
            "training.max_minutes 5 leaves, have learning rate 0");
  EXPECT_EQ(
      said("20e"),
      "optimizer.decay 100u ends before training.stop_after 20e: about the last 100 updates have learning rate 0");
  EXPECT_EQ(
      said("60kt"),
      "optimizer.decay 100u ends before training.stop_after 60kt: about the last 20 updates have learning rate 0");
  for (const char* enough : {"0u", "100u", "50u", "10e", "50kt"}) EXPECT_EQ(said(enough), "") << enough;
  EXPECT_EQ(options.zero_rate_at_end("20e", {}, {.update = 1}, 0), "") << "the length of an epoch is unknown";
  options.warm_up = "150u";
  EXPECT_EQ(said("300u"),
            "optimizer.decay 100u ends before training.stop_after 300u: the last 150 updates have learning rate 0");
  options.schedule = Decay::linear;
  EXPECT_NE(said("300u"), "");
  options.final_fraction = 0.1;
  EXPECT_EQ(said("300u"), "");
  EXPECT_EQ(ScheduleOptions().zero_rate_at_end("200000u", {}, per_update, 0), "") << "inverse-sqrt has no end";
}

}  // namespace
}  // namespace babelring
