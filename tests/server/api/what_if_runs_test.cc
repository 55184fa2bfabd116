#include "server/api/what_if_runs.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "tests/soon.h"

namespace babelring::api {
namespace {

class WhatIfRunsTest : public ::testing::Test {
 protected:
  store::RunRow row(const std::string& id = "r_1") const {
    store::RunRow run;
    run.id = id, run.attempt = 1, run.updated_ms = 1000;
    return run;
  }
  void get(const store::RunRow& run) {
    runs_.get(run, [&] {
      ++reads_;
      return insight::WhatIfRun{};
    });
  }
  WhatIfRuns runs_;
  int reads_ = 0;
};

TEST_F(WhatIfRunsTest, ReadsARunOnceThatReportsNothing) {
  const auto content = runs_.get(row(), [] { return insight::WhatIfRun{.input = {}, .updates_left = 7}; });
  EXPECT_EQ(content->updates_left, 7);
  get(row());
  EXPECT_EQ(reads_, 0);
}

TEST_F(WhatIfRunsTest, ReadsARunAgainThatReportedAndAnotherAttemptAtOnce) {
  get(row());
  store::RunRow later = row();
  later.updated_ms = 2000;
  EXPECT_TRUE(soon([&] { return get(later), reads_ == 2; }));
  later.attempt = 2;
  get(later);
  EXPECT_EQ(reads_, 3);
}

TEST_F(WhatIfRunsTest, KeepsNothingIfReadingFails) {
  EXPECT_THROW(runs_.get(row(), []() -> insight::WhatIfRun { throw std::runtime_error("no steps"); }),
               std::runtime_error);
  get(row());
  EXPECT_EQ(reads_, 1);
}

TEST_F(WhatIfRunsTest, KeepsTheEightRunsReadLast) {
  for (int i = 0; i < 9; ++i) get(row("r_" + std::to_string(i)));
  get(row("r_1"));
  EXPECT_EQ(reads_, 9);
  get(row("r_0"));
  EXPECT_EQ(reads_, 10);
}

}  // namespace
}  // namespace babelring::api
