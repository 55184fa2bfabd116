#include "worker/console.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

#include "tests/worker/log_capture.h"

namespace babelring {
namespace {

using testing::HasSubstr;

StepRecord step(std::int64_t update, double loss, std::int64_t tokens) {
  StepRecord record;
  record.update = update;
  record.epoch = static_cast<double>(update) / 100;
  record.loss = loss;
  record.nll = loss - 1;
  record.update_target_tokens = tokens;
  record.times.step = 10;
  return record;
}

TEST(Console, LogsTheMeanLossSinceThePreviousLine) {
  TrainConfig config;
  config.training.log_every = "3u";
  const LogCapture log;
  Console console(config, false);
  console.write(step(1, 8, 100));
  console.write(step(2, 5, 100));
  console.write(step(3, 2, 200));
  EXPECT_THAT(log.text(), HasSubstr("update 3 (epoch 0.03): loss 4.2500, nll 3.2500, "));
  for (std::int64_t update = 4; update <= 6; ++update) console.write(step(update, static_cast<double>(update), 50));
  EXPECT_THAT(log.text(), HasSubstr("update 6 (epoch 0.06): loss 5.0000, nll 4.0000, "));
}

TEST(Console, LeavesOutTheEpochOfGeneratedData) {
  TrainConfig config;
  config.training.log_every = "1u";
  const LogCapture log;
  Console console(config, false);
  StepRecord without_epoch = step(7, 8, 100);
  without_epoch.epoch = 0;
  console.write(without_epoch);
  EXPECT_THAT(log.text(), HasSubstr("update 7: loss 8.0000"));
}

TEST(Console, TellsAValidationFromTheTrainingSample) {
  const LogCapture log;
  Console console(TrainConfig(), false);
  console.write(EvalRecord{.update = 50, .set = "valid", .loss = 2.5, .nll = 1});
  console.write(EvalRecord{.update = 50, .set = "train", .loss = 2.25, .nll = 1});
  EXPECT_THAT(log.text(), HasSubstr("validation on valid after update 50: loss 2.5000, "));
  EXPECT_THAT(log.text(), HasSubstr("training sample after update 50: loss 2.2500, "));
}

TEST(Console, SaysHowMuchAValidationDiffersFromTheBest) {
  const LogCapture log;
  Console console(TrainConfig(), false);
  EvalRecord eval{.update = 50, .set = "valid", .loss = 2.5, .nll = 1, .sacrebleu = 31.2, .chrf = 55};
  console.write(eval);
  EXPECT_THAT(log.text(), HasSubstr("sacreBLEU 31.20, chrF2 55.00 ("));
  eval.best = true;
  eval.best_before = 40;
  eval.above_best = {.difference = 0.3, .p_value = 0.41};
  console.write(eval);
  EXPECT_THAT(log.text(), HasSubstr("chrF2 55.00, 0.30 BLEU better than update 40 (p = 0.41), the best so far ("));
}

/// The next output, of a log line or another program, begins at the front of the bar's line.
TEST(Console, LeavesTheCursorAtTheStartOfTheBar) {
  TrainConfig config;
  testing::internal::CaptureStderr();
  {
    Console console(config, true);
    console.write(step(1, 8, 100));
  }
  const std::string shown = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(std::regex_match(shown, std::regex("\x1b\\[K\\[\\.{30}\\] .* left\r\x1b\\[K"))) << shown;
}

}  // namespace
}  // namespace babelring
