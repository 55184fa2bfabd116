#include "server/store/series/span_reader.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "server/store/runs.h"
#include "server/store/series/series.h"
#include "tests/server/api_fixture.h"

namespace babelring::store {
namespace {

using babelring::testing::put;
using babelring::testing::run_id;
using babelring::testing::step_record;

class RankJoinTest : public babelring::testing::ApiFixture {
 protected:
  void fill(const std::vector<std::int64_t>& updates, std::int64_t rank = 0) {
    std::vector<Record> records;
    std::int64_t sequence = 0;
    for (const std::int64_t update : updates) records.push_back(step_record(++sequence, update, rank));
    ASSERT_EQ(put(server.store(), std::move(records)).status, IngestResult::Status::stored);
  }
  static std::vector<std::int64_t> range(std::int64_t first, std::int64_t last) {
    std::vector<std::int64_t> updates;
    for (std::int64_t update = first; update <= last; ++update) updates.push_back(update);
    return updates;
  }
  SeriesQuery query(const std::string& key) {
    auto reader = server.store().reader();
    return {.run = find_run(*reader, run_id)->number, .world_size = 1, .key = key};
  }
};

constexpr std::int64_t far = (std::int64_t{1} << 53) - 1;

TEST_F(RankJoinTest, FewPointsFarApartAreExact) {
  fill({1, std::int64_t{1} << 40, far});
  for (const char* query : {"", "?points=3", "?agg=avg", "?agg=lttb", "?agg=raw", "?rank=0", "?x=wall"}) {
    const json::object answer = get(run_path("/metrics/loss") + query);
    EXPECT_EQ(answer.at("sampled"), false) << query;
    EXPECT_EQ(to_text(answer.at("step")), fmt::format("[1,{},{}]", std::int64_t{1} << 40, far)) << query;
    EXPECT_EQ(answer.at("value").as_array().at(0).to_number<double>(), 10) << query;
    EXPECT_FALSE(answer.contains("avg")) << query;
  }
  EXPECT_EQ(get(run_path("/metrics/loss?points=2")).at("sampled"), true);
}

TEST_F(RankJoinTest, ResolutionFollowsFromTheNumberOfStepsNotFromTheRange) {
  auto updates = range(1, 3000);
  updates.push_back(far);
  fill(updates);
  const json::object answer = get(run_path("/metrics/loss?points=100"));
  EXPECT_EQ(answer.at("total"), 3001);
  EXPECT_GE(answer.at("returned").as_int64(), 80);
  EXPECT_LE(answer.at("returned").as_int64(), 100);
  const json::object raw = get(run_path("/metrics/loss?agg=raw"));
  EXPECT_EQ(raw.at("returned"), 3001);
  EXPECT_EQ(raw.at("sampled"), false);
}

TEST_F(RankJoinTest, EveryPointOrNone) {
  fill(range(1, 200));
  SeriesQuery wanted = query("loss");
  wanted.every_point = true;
  wanted.points = 200;
  auto reader = server.store().reader();
  EXPECT_EQ(read_series(*reader, wanted).points.size(), 200u);
  wanted.points = 199;
  const Series series = read_series(*reader, wanted);
  EXPECT_TRUE(series.too_long);
  EXPECT_TRUE(series.points.empty());
}

/// Ranks that report different updates, with holes longer than a summary.
TEST_F(RankJoinTest, JoinsManyRanksWhileHoldingAFewPieces) {
  constexpr std::int64_t ranks = 20, last = 4000;
  std::mt19937 random(7);
  std::map<std::int64_t, std::int64_t> ranks_of_step;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    std::vector<std::int64_t> updates;
    for (std::int64_t update = 1; update <= last; ++update) {
      if (random() % 8 == 0 || (update > 100 * rank && update < 100 * rank + 90)) continue;
      updates.push_back(update);
      ++ranks_of_step[update];
    }
    fill(updates, rank);
  }
  auto reader = server.store().reader();
  for (const char* key : {"loss", "target_tokens"}) {
    const SeriesQuery wanted = query(key);
    SpanReader values(*reader, wanted.run, wanted.key);
    const auto spans = effective_spans(*reader, wanted.run, std::nullopt);
    const bool sum = rank_aggregate(key) == RankAggregate::sum;
    for (const int level : {-1, 0}) {
      RankJoin join(values, spans, level, wanted);
      std::size_t held = 0, single = 0;
      std::map<std::int64_t, SeriesBucket> joined;
      join.run(
          [&](std::int64_t, const SeriesBucket& bucket) {
            single += static_cast<std::size_t>(bucket.count);
            held = std::max(held, join.held());
          },
          [&](const SeriesBucket& bucket) { return joined.emplace(bucket.index, bucket).second; });
      std::size_t all = 0;
      for (const auto& [step, count] : ranks_of_step) all += static_cast<std::size_t>(count);
      EXPECT_EQ(single, all);
      EXPECT_LE(held, RankJoin::max_held + 20 * ranks);
      EXPECT_LT(held, all);
      if (level >= 0) continue;
      for (const auto& [step, count] : ranks_of_step) {
        ASSERT_EQ(joined.contains(step), !sum || count == ranks) << step;
        if (!sum) {
          EXPECT_EQ(joined.at(step).finite, count);
        }
      }
    }
  }
}

TEST_F(RankJoinTest, ChunksDoNotChangeWhatIsRead) {
  auto updates = range(1, 3000);
  for (const std::int64_t update : range(100'000, 101'000)) updates.push_back(update);
  updates.push_back(far);
  fill(updates);
  const SeriesQuery wanted = query("loss");
  auto reader = server.store().reader();
  SpanReader values(*reader, wanted.run, wanted.key);
  const Span span = effective_spans(*reader, wanted.run, 0).at(0);
  for (const int level : {-1, 0, 1, 3}) {
    std::vector<SeriesBucket> whole, buckets;
    values.read(span, span.first, level, SIZE_MAX, whole);
    for (std::int64_t next = span.first; next <= span.last;) {
      const std::size_t before = buckets.size();
      next = values.read(span, next, level, 3, buckets);
      EXPECT_LE(buckets.size(), before + 3);
    }
    ASSERT_EQ(buckets.size(), whole.size()) << level;
    for (std::size_t i = 0; i < buckets.size(); ++i) {
      EXPECT_EQ(buckets[i].step, whole[i].step);
      EXPECT_EQ(buckets[i].count, whole[i].count);
      EXPECT_DOUBLE_EQ(buckets[i].sum, whole[i].sum);
    }
  }
}

}  // namespace

}  // namespace babelring::store
