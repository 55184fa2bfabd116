#include "lab/timeline/summary.h"

#include <gmock/gmock.h>

#include "base/files.h"
#include "lab/timeline/merged_trace.h"
#include "tests/lab/timeline/made_timeline.h"
#include "tests/nmt/data/temporary_folder.h"

namespace babelring {
namespace {

/// Rank r asks for its all-reduces 4 r ms late, and its clock is 1 s behind that of rank r - 1.
TimelineSummary made_summary(int ranks, bool device = false) {
  std::vector<RankEvents> events;
  for (int rank = 0; rank < ranks; ++rank) {
    RankTimeline timeline = made_timeline(rank, 1000 * rank, 4 * rank);
    timeline.device = device;
    if (device) timeline.ranges.push_back({"gradient_sum", made_time(80 - 1000 * rank), made_time(84 - 1000 * rank)});
    events.push_back(events_of(timeline, made_clock(1000 * rank), made_time(0)));
  }
  const TemporaryFolder folder;
  write_file_atomically(folder.path() / "t.json.gz", merge_ranks("r_1", 20, 1, events).value());
  return summarize(read_trace(folder.path() / "t.json.gz"));
}

TEST(TimelineSummaryTest, PartsOfARankAddUpToItsUpdates) {
  const TimelineSummary summary = made_summary(2);
  ASSERT_EQ(summary.ranks.size(), 2U);
  const RankSplit& first = summary.ranks[0];
  EXPECT_NEAR(first.total_ms, 100, 1e-3);
  EXPECT_NEAR(first.compute_ms, 80, 1e-3);
  EXPECT_NEAR(first.exposed_ms, 10, 1e-3);
  EXPECT_NEAR(first.data_ms, 5, 1e-3);
  EXPECT_NEAR(first.other_ms, 5, 1e-3);
  // All-reduces are in progress from 31 to 81 ms, of which the main thread waits from 76 on.
  EXPECT_NEAR(first.hidden_ms, 45, 1e-3);
  EXPECT_NEAR(first.overlap.value(), 0.9, 1e-4);
}

TEST(TimelineSummaryTest, RangesTellWhatADeviceDid) {
  const RankSplit shares = made_summary(1, true).ranks[0];
  EXPECT_NEAR(shares.exposed_ms, 4, 1e-3);
  EXPECT_NEAR(shares.compute_ms, 20, 1e-3) << "the range forward";
  EXPECT_NEAR(shares.data_ms, 5, 1e-3);
}

TEST(TimelineSummaryTest, AddsUpTheRunsOfAnOp) {
  const TimelineSummary summary = made_summary(2);
  ASSERT_EQ(summary.ops.size(), 2U);
  const OpTotal& longest = summary.ops[0];
  EXPECT_EQ(longest.name, "linear_forward");
  EXPECT_EQ(longest.layer, "encoder.*.attention.qkv");
  EXPECT_EQ(longest.shapes, "x [64, 512], weight [512, 512]");
  EXPECT_EQ(longest.calls, 2);
  EXPECT_NEAR(longest.ms, 20, 1e-3);
  EXPECT_NEAR(longest.gflop_per_s.value(), 3.35, 1e-3);
  EXPECT_NEAR(longest.share_of_peak.value(), 1, 1e-3);
  EXPECT_FALSE(summary.ops[1].gflop_per_s);
  EXPECT_EQ(summary.ops[1].layer, "");
  EXPECT_EQ(summary.ops[1].shapes, "x [64], x.2 [8]");
}

TraceEvent op_event(const std::string& layer, const std::string& x, double us) {
  return {.name = "linear_forward",
          .category = "op",
          .end_us = us,
          .arguments = {{"layer", layer}, {"shapes", json::object{{"x", x}, {"weight", "[512, 2048]"}}}}};
}

TEST(TimelineSummaryTest, LayersOfAllNumbersAndBatchesOfAllSizesCountTogether) {
  TraceFile trace{.events = {op_event("encoder.0.feed_forward.first", "[64, 512]", 10),
                             op_event("encoder.11.feed_forward.first", "[60, 512]", 20),
                             op_event("decoder.0.feed_forward.first", "[64, 512]", 15)}};
  const std::vector<OpTotal> ops = summarize(trace).ops;
  ASSERT_EQ(ops.size(), 2U);
  EXPECT_EQ(ops[0].layer, "encoder.*.feed_forward.first");
  EXPECT_EQ(ops[0].calls, 2);
  EXPECT_NEAR(ops[0].ms, 0.03, 1e-9);
  EXPECT_EQ(ops[0].shapes, "weight [512, 2048]");
  EXPECT_EQ(ops[1].shapes, "x [64, 512], weight [512, 2048]");
}

TEST(TimelineSummaryTest, NamesTheRankThatOthersWaitedFor) {
  const TimelineSummary summary = made_summary(3);
  ASSERT_EQ(summary.waiting.size(), 1U);
  EXPECT_EQ(summary.waiting[0].update, 20);
  EXPECT_EQ(summary.waiting[0].rank, 2);
  EXPECT_NEAR(summary.waiting[0].waited_ms, 2 * (8 + 4), 0.01) << "two all-reduces; rank 0 waits 8 ms, rank 1 4 ms";
  EXPECT_TRUE(made_summary(1).waiting.empty());
}

}  // namespace
}  // namespace babelring
