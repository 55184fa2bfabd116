#include "server/store/series/series.h"

#include <algorithm>
#include <cmath>

#include "tests/server/store/store_fixture.h"

namespace babelring::store {
namespace {

using SeriesTest = StoreTest;

TEST_F(SeriesTest, LeavesOutStepsThatALaterAttemptDidAgain) {
  put(*store, steps(1, 100));
  put(*store, steps(71, 80, 0, 2, 1));
  const auto points = series("loss", 1000).points;
  ASSERT_EQ(points.size(), 80u);
  for (std::size_t i = 0; i < points.size(); ++i) EXPECT_EQ(points[i].step, static_cast<std::int64_t>(i) + 1);
}

TEST_F(SeriesTest, SummariesEqualTheStepsTheyStandFor) {
  for (std::int64_t first = 1; first <= 4000; first += 1000) put(*store, steps(first, first + 999));
  const auto exact = series("loss", 4000);
  EXPECT_FALSE(exact.sampled);
  ASSERT_EQ(exact.points.size(), 4000u);
  const auto coarse = series("loss", 20);  // read from buckets of 64
  EXPECT_TRUE(coarse.sampled);
  EXPECT_LE(coarse.points.size(), 20u);
  EXPECT_EQ(coarse.total, 4000);
  std::int64_t from = 1;
  for (const SeriesPoint& point : coarse.points) {
    double min = INFINITY, max = -INFINITY, sum = 0;
    for (std::int64_t u = from; u <= point.step; ++u) {
      const double loss = 10.0 / static_cast<double>(u);
      min = std::min(min, loss);
      max = std::max(max, loss);
      sum += loss;
    }
    EXPECT_EQ(point.min, min);
    EXPECT_EQ(point.max, max);
    EXPECT_NEAR(point.average, sum / static_cast<double>(point.step - from + 1), 1e-9);
    from = point.step + 1;
  }
  EXPECT_EQ(from, 4001);
}

TEST_F(SeriesTest, AStragglerChangesItsSummary) {
  auto records = steps(1, 3000);
  Record spike = records[999];
  records.erase(records.begin() + 999);
  put(*store, records);
  std::get<StepRecord>(spike.body).loss = 1e6;
  put(*store, {spike});
  const auto coarse = series("loss", 10);
  double max = 0;
  for (const auto& point : coarse.points) max = std::max(max, point.max);
  EXPECT_EQ(max, 1e6);
  auto reader = store->reader();
  const auto keys = summarise_keys(*reader, find_run(*reader, run_id)->number, 0);
  const auto loss = std::find_if(keys.begin(), keys.end(), [](const auto& key) { return key.key == "loss"; });
  ASSERT_NE(loss, keys.end());
  EXPECT_EQ(loss->max, 1e6);
  EXPECT_EQ(loss->max_step, 1000);
  EXPECT_EQ(loss->count, 3000);
  EXPECT_EQ(loss->first, 10.0);
}

TEST_F(SeriesTest, SumsOverRanksWaitForAllAndHostsCountOnce) {
  LifecycleRecord started;
  started.event = "started";
  started.world_size = 3;
  put(*store, {record_of(started, 1)});
  put(*store, steps(1, 5, 0, 1, 2));
  put(*store, steps(1, 4, 1));
  EXPECT_TRUE(series("target_tokens", 100, std::nullopt).points.empty());
  put(*store, steps(1, 3, 2));
  const auto tokens = series("target_tokens", 100, std::nullopt);
  ASSERT_EQ(tokens.points.size(), 3u);
  EXPECT_EQ(tokens.points[0].average, 100 + 101 + 102);
  const auto bytes = series("network_tx_bytes", 100, std::nullopt);
  ASSERT_EQ(bytes.points.size(), 3u);
  EXPECT_EQ(bytes.points[0].average, 1001 + 1002);  // ranks 0 and 1 share a host
  EXPECT_EQ(series("loss", 100, std::nullopt).points.size(), 5u);
}

TEST_F(SeriesTest, NamesNonFiniteValues) {
  auto records = steps(1, 5);
  std::get<StepRecord>(records[1].body).loss = NAN;
  std::get<StepRecord>(records[3].body).loss = -INFINITY;
  put(*store, records);
  const auto loss = series("loss", 100);
  ASSERT_EQ(loss.non_finite.size(), 2u);
  EXPECT_EQ(loss.non_finite[0].first, 2);
  EXPECT_TRUE(std::isnan(loss.non_finite[0].second));
  EXPECT_EQ(loss.non_finite[1].second, -INFINITY);
  EXPECT_TRUE(std::isnan(loss.points[1].average));
}

TEST_F(SeriesTest, NamesAThousandNonFiniteValuesAtMost) {
  auto records = steps(1, 5000);
  for (Record& record : records) std::get<StepRecord>(record.body).loss = NAN;
  put(*store, records);
  for (const std::size_t points : {20u, 5000u}) {  // of summaries, and of steps
    const auto loss = series("loss", points);
    ASSERT_EQ(loss.non_finite.size(), 1000u) << points;
    EXPECT_EQ(loss.non_finite.back().first, 1000) << "the first ones";
  }
}

}  // namespace
}  // namespace babelring::store
