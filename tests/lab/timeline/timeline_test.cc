#include "lab/timeline/timeline.h"

#include <gmock/gmock.h>

#include <map>
#include <thread>

#include "base/files.h"
#include "lab/timeline/trace_file.h"
#include "lab/tools/lab.h"
#include "nmt/data/text_source.h"
#include "nmt/train/trainer.h"
#include "tests/nmt/comm/thread_communicator.h"
#include "tests/nmt/data/synthetic.h"
#include "tests/nmt/data/temporary_folder.h"
#include "tests/nmt/train/small_training.h"
#include "tests/reference/test_backends.h"
#include "tests/worker/log_capture.h"

namespace babelring {
namespace {

using testing::HasSubstr;

class TimelineTest : public testing::Test {
 protected:
  TimelineTest() {
    config_.training.stop_after = "6u";
    config_.training.digest_every = "1u";
    config_.lab.trace.start = "3u";
  }

  /// Trains with a timeline; `updates`: how many updates it shows. Returns rank 0's records.
  std::vector<StepRecord> train(int updates, int ranks = 1, const std::string& device = "cpu") {
    config_.lab.trace.updates = updates;
    ThreadGroup group(ranks);
    std::vector<Collector> records(static_cast<std::size_t>(ranks));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        const auto communicator = ranks == 1 ? make_single_communicator() : group.rank(rank);
        train_rank(*communicator, device, records[static_cast<std::size_t>(rank)]);
      });
    }
    for (std::thread& thread : threads) thread.join();
    return records[0].steps;
  }

  TraceFile trace(const std::string& name = "trace-update-00000003.json.gz") const {
    return read_trace(folder_.path() / name);
  }
  bool written() const { return !std::filesystem::is_empty(folder_.path()); }

  TrainConfig config_ = small_config();
  TraceRequest request_;
  json::value content_;  // of the newest artifact
  int traces_ = 0;       // that were written

 private:
  void train_rank(Communicator& communicator, const std::string& device, Collector& records) {
    const auto backend = make_test_backend(device);
    SpanLog spans;
    Lab lab;
    lab.add(
        std::make_unique<Timeline>(Timeline::Parts{.config = config_.lab.trace,
                                                   .run = "r_1",
                                                   .spans = spans,
                                                   .request = communicator.rank() == 0 ? &request_ : nullptr,
                                                   .write = [this](const Artifact& artifact, std::string_view file) {
                                                     content_ = artifact.content;
                                                     ++traces_;
                                                     write_file_atomically(folder_.path() / artifact.name, file);
                                                   }}));
    const StopRequest stop;
    TextSource source(corpus_, config_.plan_options());
    Trainer trainer({.config = config_,
                     .backend = *backend,
                     .communicator = communicator,
                     .source = source,
                     .records = records,
                     .stop = stop,
                     .spans = &spans,
                     .lab = &lab,
                     .model_vocabulary = pieces});
    trainer.begin("r_00000000000000000000000000", 1);
    trainer.run();
  }

  TemporaryFolder folder_;
  Corpus corpus_ =
      make_synthetic({.task = SyntheticTask::reverse, .sentences = 300, .vocabulary_size = pieces, .max_length = 12});
};

std::map<std::string, int> counts_of(const TraceFile& trace, const std::string& category) {
  std::map<std::string, int> counts;
  for (const TraceEvent& event : trace.events) {
    if (event.category == category) ++counts[event.name];
  }
  return counts;
}

TEST_F(TimelineTest, ShowsUpdatesPhasesRangesAndOpsAndChangesNoBits) {
  const std::vector<StepRecord> plain = train(0);
  EXPECT_FALSE(written());
  const std::vector<StepRecord> traced = train(2);
  ASSERT_EQ(traced.size(), plain.size());
  for (std::size_t i = 0; i < plain.size(); ++i) {
    EXPECT_EQ(traced[i].weights_digest, plain[i].weights_digest) << i;
  }
  const TraceFile file = trace();
  EXPECT_EQ(file.updates, 2);
  EXPECT_EQ(counts_of(file, "update"), (std::map<std::string, int>{{"update 3", 1}, {"update 4", 1}}));
  EXPECT_EQ(counts_of(file, "range").at("micro_batch"), 2);
  EXPECT_GT(counts_of(file, "op").at("linear_forward"), 2);
  EXPECT_EQ(counts_of(file, "op").at("adam_update"), 2);
  EXPECT_EQ(counts_of(file, "phase").at("optimizer"), 2);
  for (const TraceEvent& event : file.events) {
    if (event.category != "update") continue;
    const double step_ms = event.arguments.at("step_ms").to_number<double>();
    EXPECT_GE(event.us() / 1e3 + 1e-3, step_ms) << "the update lasts from before the step to after it";
  }
}

TEST_F(TimelineTest, WithoutOpsShowsRangesOnly) {
  config_.lab.trace.ops = false;
  train(1);
  EXPECT_TRUE(counts_of(trace(), "op").empty());
  EXPECT_EQ(counts_of(trace(), "range").at("optimizer"), 1);
}

TEST_F(TimelineTest, ARequestIsTracedFromTheNextUpdateOn) {
  request_.request({.number = 4, .updates = 2, .ops = false});
  train(0);
  EXPECT_EQ(request_.done(), 4);
  const TraceFile file = trace("trace-update-00000002.json.gz");
  EXPECT_EQ(counts_of(file, "update"), (std::map<std::string, int>{{"update 2", 1}, {"update 3", 1}}));
  EXPECT_TRUE(counts_of(file, "op").empty());
  const json::object& content = content_.as_object();
  EXPECT_EQ(content.at("request"), 4);
  EXPECT_EQ(content.at("first_update"), 2);
  EXPECT_EQ(content.at("updates"), 2);
  EXPECT_FALSE(content.at("ops").as_bool());
  const json::object& rank = content.at("ranks").at(0).as_object();
  const auto ms = [&rank](const char* name) { return rank.at(name).to_number<double>(); };
  EXPECT_GT(ms("compute_ms"), 0);
  EXPECT_NEAR(ms("total_ms"), ms("compute_ms") + ms("exposed_ms") + ms("data_ms") + ms("other_ms"), 0.004);
}

TEST_F(TimelineTest, ARequestForOneUpdateIsTracedOnce) {
  request_.request({.number = 1, .updates = 1});
  train(0);
  EXPECT_EQ(request_.done(), 1);
  EXPECT_EQ(trace("trace-update-00000002.json.gz").updates, 1);
  EXPECT_EQ(traces_, 1);
}

TEST_F(TimelineTest, ARequestWaitsForAConfiguredTrace) {
  config_.lab.trace.start = "2u";
  request_.request({.number = 1, .updates = 1});
  train(2);
  EXPECT_EQ(trace("trace-update-00000002.json.gz").updates, 2) << "as configured";
  EXPECT_EQ(trace("trace-update-00000005.json.gz").updates, 1) << "the vote of update 4 begins it";
  EXPECT_EQ(request_.done(), 1);
}

/// Threads cannot time round trips.
TEST_F(TimelineTest, WithoutClockOffsetsThereIsNoFile) {
  const LogCapture log;
  train(1, 2);
  EXPECT_FALSE(written());
  EXPECT_THAT(log.text(), HasSubstr("rank 1 on here has no clock offset to rank 0"));
}

TEST_F(TimelineTest, AllRanksBeginARequestedTraceAtTheSameUpdate) {
  const LogCapture log;
  request_.request({.number = 1, .updates = 2});
  train(0, 2);
  EXPECT_EQ(request_.done(), 1) << "also if no file can be written";
  EXPECT_THAT(log.text(), HasSubstr("trace of update 2: rank 1 on here has no clock offset to rank 0"));
}

TEST_F(TimelineTest, WarnsIfTheRunEndsFirst) {
  const LogCapture log;
  train(20);
  EXPECT_FALSE(written());
  EXPECT_THAT(log.text(), HasSubstr("trace: the run ended after 4 of 20 updates to trace: no trace is written"));
}

}  // namespace
}  // namespace babelring
