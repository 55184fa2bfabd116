#include "nmt/lab/probe/run_probe.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "nmt/data/text_source.h"
#include "nmt/lab/probe/probe_compare.h"
#include "nmt/train/trainer.h"
#include "tests/nmt/comm/thread_communicator.h"
#include "tests/nmt/data/synthetic.h"
#include "tests/nmt/data/temporary_folder.h"
#include "tests/nmt/train/small_training.h"
#include "tests/worker/log_capture.h"

namespace babelring {
namespace {

/// Runs a probe, and on rank 1 may flip one bit of one weight before the first probed update.
class FlipsBit final : public UpdateObserver {
 public:
  FlipsBit(RunProbe& probe, std::int64_t update) : probe_(probe), update_(update) {}
  OpObserver* begin(const UpdateStart& start) override {
    if (start.update == update_) start.replica.model.parameters().all()[7].master.as<std::uint32_t>()[5] ^= 16;
    return probe_.begin(start);
  }
  void end(const StepRecord& record) override { probe_.end(record); }

 private:
  RunProbe& probe_;
  std::int64_t update_;
};

/// Keeps the names of reported files, of all ranks.
class Reported final : public RecordSink {
 public:
  void write(RecordBody body) override {
    const auto* artifact = std::get_if<ArtifactRecord>(&body);
    const std::lock_guard lock(mutex_);
    if (artifact != nullptr) names_.insert(fmt::format("{} {}", artifact->name, artifact->update));
  }
  const std::set<std::string>& names() const { return names_; }

 private:
  std::mutex mutex_;
  std::set<std::string> names_;
};

/// Returns the names and updates of the files that the ranks reported.
std::set<std::string> train_probed(const TrainConfig& config, const std::filesystem::path& folder, int ranks,
                                   bool shares_memory, std::int64_t flip_before) {
  const Corpus corpus =
      make_synthetic({.task = SyntheticTask::reverse, .sentences = 200, .vocabulary_size = pieces, .max_length = 12});
  ThreadGroup group(ranks, shares_memory);
  std::vector<std::thread> threads;
  Reported reported;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const auto communicator = group.rank(rank);
      const auto backend = make_cpu_backend(1);
      const StopRequest stop;
      Collector records;
      RunProbe probe(config, {folder, 20, rank, reported}, corpus.digest());
      FlipsBit lab(probe, rank == 1 ? flip_before : 0);
      TextSource source(corpus, config.plan_options());
      Trainer trainer({.config = config,
                       .backend = *backend,
                       .communicator = *communicator,
                       .source = source,
                       .records = records,
                       .stop = stop,
                       .lab = &lab,
                       .model_vocabulary = pieces});
      trainer.begin("r_00000000000000000000000000", 1);
      trainer.run();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return reported.names();
}

TrainConfig probed_config() {
  TrainConfig config = small_config();
  config.training.stop_after = "5u";
  config.training.on_difference = OnDifference::warn;
  config.lab.probe.at = "3u";
  config.lab.probe.updates = 2;
  return config;
}

class RunProbeTest : public testing::Test {
 protected:
  Probe probe(int rank) const {
    return read_probe(folder.path() / "lab" / ("probe-update-00000003-rank-" + std::to_string(rank) + ".jsonl"));
  }
  TemporaryFolder folder;
};

TEST_F(RunProbeTest, RanksAgreeInWhatTheyMustHaveInCommon) {
  for (const bool shares_memory : {false, true}) {
    EXPECT_THAT(train_probed(probed_config(), folder.path() / "lab", 2, shares_memory, 0),
                testing::ElementsAre("probe-update-00000003-rank-0.jsonl 3", "probe-update-00000003-rank-1.jsonl 3"));
    const Probe a = probe(0), b = probe(1);
    EXPECT_EQ(a.header.ranks, 2);
    EXPECT_EQ(b.header.rank, 1);
    EXPECT_EQ(a.header.first_update, 3);
    const ProbeComparison comparison = compare_probes(a, b, {.ranks = true});
    EXPECT_EQ(comparison.sameness, Sameness::same) << comparison.pairs[*comparison.first].record().key();
    EXPECT_GT(comparison.pairs.size(), 55U * 2 * 3) << "weights and moments of 2 updates";
  }
}

TEST_F(RunProbeTest, AFlippedBitIsNamed) {
  TrainConfig config = probed_config();
  config.lab.probe.tensors = "*/start/*";
  const LogCapture log;
  const std::set<std::string> reported = train_probed(config, folder.path() / "lab", 2, false, 3);
  EXPECT_TRUE(reported.contains("probe-update-00000003-rank-1.safetensors 3")) << reported.size();
  const Probe a = probe(0), b = probe(1);
  const ProbeComparison comparison = compare_probes(a, b, {.ranks = true});
  ASSERT_TRUE(comparison.first);
  const RecordPair& first = comparison.pairs[*comparison.first];
  EXPECT_THAT(first.record().key(), testing::StartsWith("3/-1/start/encoder.0.feed_forward"));
  EXPECT_EQ(first.element, 5);
  EXPECT_EQ(first.distance.worst.ulp, 16U);
  EXPECT_TRUE(first.exact);
}

TEST_F(RunProbeTest, AFileThatCannotBeWrittenDoesNotEndTheRun) {
  folder.write("lab", "no folder");
  const LogCapture log;
  train_probed(probed_config(), folder.path() / "lab", 1, false, 0);
  EXPECT_EQ(log.count("probe of update 3: "), 1) << log.text();
}

}  // namespace
}  // namespace babelring
