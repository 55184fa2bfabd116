#include "insight/predict/rank_record.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace babelring::insight {
namespace {

using testing::HasSubstr;

RankRecord small_record() {
  RankRecord record;
  record.model = "tiny";
  record.unit = "target tokens";
  record.size = 200;
  record.ops = {{"forward", "matmul", 0.1, 2, 0, {{100, 4, 1, 0.1, 3}, {200, 4, 2, 0.2, 5}}}};
  record.times = {{"forward", 100, 1}, {"forward", 200, 2}, {"optimizer", 100, 3}};
  record.buckets = {{4, 0.5}, {2, 1}};
  record.jitter = {0.9, 1, 1.1};
  record.quality = "good";
  return record;
}

TEST(RankRecordTest, IsTheSameAfterJson) {
  const RankRecord record = small_record();
  const Result<RankRecord> read = rank_record_from_json(to_json(record));
  ASSERT_TRUE(read) << read.error();
  EXPECT_EQ(to_text(to_json(*read)), to_text(to_json(record)));
  EXPECT_EQ(read->jitter, record.jitter);
}

TEST(RankRecordTest, AddsOpsAndTimesOfAPhase) {
  const RankRecord record = small_record();
  EXPECT_DOUBLE_EQ(record.phase_ms("forward").at(100), 0.4 + 2 + 1);
  EXPECT_DOUBLE_EQ(record.phase_ms("forward").at(150), 0.4 + 3 + 1.5);
  EXPECT_TRUE(record.phase_ms("backward").empty());
  EXPECT_EQ(record.recorded_sizes(), std::pair(100.0, 200.0));
  EXPECT_EQ(record.gradient_megabytes(), 6);
}

TEST(RankRecordTest, SharesTheProcessorsWithItsNeighbours) {
  RankRecord record = small_record();
  record.threads = 2;
  EXPECT_EQ(record.processors_of_rank(), 2) << "the machine is not known";
  EXPECT_EQ(record.spare_processors_of_rank(), 0);
  record.processors = 6;
  record.neighbours = 2;
  EXPECT_EQ(record.processors_of_rank(), 2);
  record.neighbours = 3;
  EXPECT_EQ(record.processors_of_rank(), 1.5);
  EXPECT_EQ(record.spare_processors_of_rank(), 0);
  record.processors = 64;
  EXPECT_EQ(record.processors_of_rank(), 2) << "its threads use no more";
  EXPECT_EQ(record.spare_processors_of_rank(), 14);
}

TEST(RankRecordTest, PutsWholeBucketsTogetherAndCutsLargeOnes) {
  const std::vector<Bucket> buckets = {{1, 0.25}, {1, 0.5}, {1, 0.75}, {7, 1}};
  const auto rebucketed_as = [&buckets](double bucket_mb) {
    std::string text;
    for (const Bucket& one : rebucketed(buckets, bucket_mb)) text += fmt::format("{}@{} ", one.megabytes, one.ready);
    return text;
  };
  EXPECT_EQ(rebucketed_as(2), "2@0.5 1@0.75 2@1 2@1 2@1 1@1 ");
  EXPECT_EQ(rebucketed_as(4), "3@0.75 4@1 3@1 ") << "the large one has no room beside the others";
  EXPECT_EQ(rebucketed_as(100), "10@1 ");
  EXPECT_EQ(rebucketed(buckets, 0.5).size(), 20);
}

TEST(RankRecordTest, RefusesWhatItDoesNotUnderstand) {
  const auto error = [](auto change) {
    json::object object = to_json(small_record());
    change(object);
    const Result<RankRecord> read = rank_record_from_json(object);
    return read ? std::string("accepted") : read.error();
  };
  EXPECT_THAT(error([](json::object& o) { o["colour"] = 1; }), HasSubstr("colour: unknown member"));
  EXPECT_THAT(error([](json::object& o) { o["format"] = "babelring-rank-record-9"; }),
              HasSubstr("format: found 'babelring-rank-record-9', expected babelring-rank-record-1"));
  EXPECT_THAT(error([](json::object& o) { o["size"] = 0; }), HasSubstr("size: found 0, expected a number above 0"));
  EXPECT_THAT(error([](json::object& o) { o.erase("unit"); }), HasSubstr("unit: expected, but absent"));
  EXPECT_THAT(error([](json::object& o) { o["jitter"] = {1, "x"}; }), HasSubstr("jitter[1]: expected a number"));
  EXPECT_THAT(error([](json::object& o) { o["jitter"] = {-1}; }),
              HasSubstr("found -1, expected samples of at least 0"));
  EXPECT_THAT(error([](json::object& o) { o["threads"] = 0; }), HasSubstr("threads: found 0"));
  EXPECT_THAT(error([](json::object& o) { o["processors"] = -2; }), HasSubstr("processors: found -2"));
  EXPECT_THAT(error([](json::object& o) { o["slowdown_beside_communication"] = 0.5; }),
              HasSubstr("expected at least 1"));
  EXPECT_THAT(error([](json::object& o) { o["times"].as_array()[0].as_object()["phase"] = "backwards"; }),
              HasSubstr("phase: found 'backwards', expected transfer, forward"));
  EXPECT_THAT(error([](json::object& o) { o["times"].as_array()[1].as_object()["size"] = 100; }),
              HasSubstr("found two values for 100"));
  EXPECT_THAT(error([](json::object& o) {
                o["times"].as_array().clear();
                o["ops"].as_array().clear();
              }),
              HasSubstr("both are empty"));
  EXPECT_FALSE(rank_record_from_json(json::value(3)));
}

TEST(OpModelTest, RecoversTheTimesOfAnOp) {
  const OpModel truth{0.02, 0.5, 3};
  std::vector<OpWork> works = {{1, 12, 3, 0.5}, {2, 12, 7, 0.8}, {3, 24, 11, 2.5}, {4, 24, 29, 2.6}};
  for (OpWork& work : works) work.ms = truth.ms(work);
  const OpModel fitted = fit_op(works);
  EXPECT_NEAR(fitted.fixed_ms, truth.fixed_ms, 1e-9);
  EXPECT_NEAR(fitted.ms_per_gflop, truth.ms_per_gflop, 1e-9);
  EXPECT_NEAR(fitted.ms_per_gb, truth.ms_per_gb, 1e-9);
}

TEST(OpModelTest, IsNeverNegativeAndExplainsOneSize) {
  const std::vector<OpWork> works = {{1, 10, 4, 1, 8}};
  const OpModel fitted = fit_op(works);
  EXPECT_GE(fitted.fixed_ms, 0);
  EXPECT_GE(fitted.ms_per_gflop, 0);
  EXPECT_GE(fitted.ms_per_gb, 0);
  EXPECT_NEAR(fitted.ms(works[0]), 8, 1e-9);
  EXPECT_EQ(fit_op(std::vector<OpWork>{{1, 10, 4, 1, 0}}).ms(works[0]), 0);
}

}  // namespace

}  // namespace babelring::insight
