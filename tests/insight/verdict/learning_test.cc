#include "insight/verdict/learning.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace babelring::verdict {
namespace {

using ::testing::HasSubstr;
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// `count` updates with a loss from `first` to `last` in equal steps. The last `bad` updates are skipped.
std::vector<TrainedUpdate> updates(std::int64_t count, double first, double last, std::int64_t bad = 0) {
  std::vector<TrainedUpdate> made;
  for (std::int64_t i = 0; i < count; ++i) {
    const bool skipped = i >= count - bad;
    const double at = static_cast<double>(i) / static_cast<double>(std::max<std::int64_t>(count - 1, 1));
    made.push_back({i + 1, skipped ? nan : first + (last - first) * at, skipped});
  }
  return made;
}

std::vector<ValidationResult> evaluations(std::initializer_list<double> losses, std::vector<double> bleu = {}) {
  std::vector<ValidationResult> made;
  for (const double loss : losses) {
    const auto i = made.size();
    made.push_back({static_cast<std::int64_t>(300 * (i + 1)), loss, i < bleu.size() ? bleu[i] : nan});
  }
  return made;
}

struct LearningCase {
  const char* name;
  Course course;
  Level level;
  std::string text;
};

TEST(Learning, IsJudgedByLossesAndEvaluations) {
  const LearningCase cases[] = {
      {"nothing", {}, Level::unknown, "No update has been reported yet"},
      {"two updates", {updates(2, 9, 8), {}}, Level::unknown, "Training loss 8.500"},
      {"falling", {updates(128, 3, 2), {}}, Level::good, "Training loss 2.059"},
      {"with an evaluation",
       {updates(128, 3, 2), evaluations({2.5})},
       Level::good,
       "Training loss 2.059, validation loss 2.500 after update 300"},
      {"every update skipped",
       {updates(128, 3, 2, 128), evaluations({2.5})},
       Level::bad,
       "Not learning: 128 of the last 128 updates had a non-finite loss or gradient"},
      {"a tenth skipped", {updates(128, 3, 2, 13), {}}, Level::bad, "Not learning: 13 of the last 128"},
      {"less than a tenth skipped",
       {updates(128, 3, 2, 12), {}},
       Level::warning,
       "12 of the last 128 updates had a non-finite loss or gradient"},
      {"evaluation not finite",
       {updates(128, 3, 2), evaluations({2.5, nan})},
       Level::bad,
       "its validation loss after update 600 is not finite"},
      {"rising", {updates(128, 2, 4), {}}, Level::bad, "Diverging: the training loss rose from 2.496 to 3.882"},
      {"rising a little", {updates(128, 2, 2.4), {}}, Level::good, "Training loss 2.3"},
      {"rising evaluations",
       {updates(128, 3, 2), evaluations({2.5, 2.3, 2.31, 2.35, 2.48})},
       Level::warning,
       "Overfitting: the validation loss has risen for 3 evaluations, from 2.300 at update 600 to 2.480 at update "
       "1,500"},
      {"two rising evaluations", {updates(128, 3, 2), evaluations({2.5, 2.3, 2.31, 2.35})}, Level::good, "2.350"},
      {"rising loss, rising BLEU",
       {updates(128, 3, 2), evaluations({2.3, 2.31, 2.35, 2.48}, {30, 31, 32, 33})},
       Level::good,
       "validation loss 2.480"},
      {"rising loss without a better BLEU",
       {updates(128, 3, 2), evaluations({2.3, 2.31, 2.35, 2.48}, {30, 31, 32, 31.5})},
       Level::warning,
       "Overfitting"},
      {"no better for five",
       {updates(128, 3, 2.99), evaluations({2.5, 2.3, 2.31, 2.3, 2.31, 2.3, 2.3})},
       Level::warning,
       "Plateau: no improvement for 5 evaluations; the validation loss is 2.300, its best was 2.300 at update 600"},
      {"much worse than the best, no longer rising",
       {updates(128, 3, 0.5), evaluations({2.5, 1.7, 2.6, 3.9, 4.6, 4.7, 4.72, 4.69})},
       Level::warning,
       "Overfitting: the validation loss is 4.690, its best was 1.700 at update 600"},
      {"better BLEU within five",
       {updates(128, 3, 2.99), evaluations({2.3, 2.3, 2.31, 2.3, 2.31, 2.3}, {30, 30, 30, 31, 30, 30})},
       Level::good,
       "validation loss 2.300"},
  };
  for (const LearningCase& expected : cases) {
    const HealthPart part = judge_learning(expected.course);
    EXPECT_EQ(part.topic, Topic::learning) << expected.name;
    EXPECT_EQ(part.level, expected.level) << expected.name << ": " << part.text;
    EXPECT_THAT(part.text, HasSubstr(expected.text)) << expected.name;
    EXPECT_EQ(part.action.empty(), part.level <= Level::unknown) << expected.name;
  }
}

}  // namespace
}  // namespace babelring::verdict
