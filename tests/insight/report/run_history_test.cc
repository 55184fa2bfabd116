#include "insight/report/run_history.h"

#include <gtest/gtest.h>

#include "insight/report/spooled_history.h"
#include "tests/insight/report/constructed_run.h"

namespace babelring::insight {
namespace {

TEST(StepThinning, KeepsAllOfAShortRunAndABoundedPartOfALongOne) {
  const StepThinning brief(50'000, 1);
  EXPECT_EQ(brief.stride(0), 1);
  EXPECT_TRUE(brief.keeps(0, 777));
  const std::int64_t updates = 10'000'000, ranks = 64;
  const StepThinning lengthy(updates, ranks);
  std::int64_t first = 0, other = 0;
  for (std::int64_t update = 1; update <= updates; ++update) {
    first += lengthy.keeps(0, update) ? 1 : 0;
    other += lengthy.keeps(1, update) ? 1 : 0;
  }
  EXPECT_LE(first, StepThinning::max_steps + 1000);
  EXPECT_LE(other * (ranks - 1), StepThinning::max_steps + 40'000);
  EXPECT_TRUE(lengthy.keeps(63, updates));
}

TEST(RunHistory, DropsEvaluationsAndCheckpointsThatWereDoneAgain) {
  constructed::ConstructedRun run = constructed::small_run();
  run.evaluate("valid", 20, [](double) { return 3; });
  HistoryCollector collector;
  run.each([&](const Record& record) { collector.add(record); });
  run.evals.clear();
  run.begin_ms += 100'000;
  run.evaluate("valid", 60, [](double) { return 2; });
  run.each([&](Record record) {
    record.header.attempt = 2;
    const auto* step = std::get_if<StepRecord>(&record.body);
    if (step == nullptr || step->update > 40) collector.add(record);
  });
  const RunHistory history = std::move(collector).finish();
  ASSERT_EQ(history.evals.size(), 3u);
  EXPECT_EQ(history.evals[1].eval.update, 40);
  EXPECT_EQ(history.evals[2].eval.update, 60);
  EXPECT_EQ(history.evals[2].eval.nll, 2);
  EXPECT_EQ(history.first_rank()->steps.size(), 100u);
  EXPECT_EQ(history.attempt, 2);
}

}  // namespace
}  // namespace babelring::insight
