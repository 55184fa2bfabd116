#include "lab/probe/probe_repeat.h"

#include <gmock/gmock.h>

#include "tests/lab/probe/wrong_backend.h"

namespace babelring {
namespace {

TEST(RepeatProbe, EqualRunsAreTheSameAlsoOnBusyProcessors) {
  for (const bool busy : {false, true}) {
    const RepeatResult result = repeat_probe(small_plan(), *make_cpu_backend(2), 3, busy);
    EXPECT_EQ(result.runs, 3);
    EXPECT_EQ(result.different, 0);
    EXPECT_FALSE(result.first);
  }
}

TEST(RepeatProbe, NamesTheFirstTensorThatEverDiffered) {
  ProbePlan plan = small_plan();
  plan.updates = 1;
  WrongBackend backend(3, 1, 3);  // each run is one update
  const RepeatResult result = repeat_probe(plan, backend, 4, false);
  EXPECT_EQ(result.different, 1);
  ASSERT_TRUE(result.first);
  EXPECT_EQ(result.first_different, 1);
  EXPECT_EQ(result.first->op, "linear_backward_data");
  EXPECT_EQ(result.first->phase, "backward");
}

}  // namespace
}  // namespace babelring
