#include "lab/probe/run_probe.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "lab/probe/probe_compare.h"
#include "nmt/checkpoint/tensor_files.h"
#include "nmt/data/text_source.h"
#include "nmt/train/setup/own_libraries.h"
#include "nmt/train/trainer.h"
#include "tests/lab/probe/flips_bit.h"
#include "tests/nmt/comm/thread_communicator.h"
#include "tests/nmt/data/synthetic.h"
#include "tests/nmt/data/temporary_folder.h"
#include "tests/nmt/train/small_training.h"
#include "tests/nmt/train/trained_rank.h"
#include "tests/worker/log_capture.h"

namespace babelring {
namespace {

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
      run_rank({.config = config,
                .backend = *backend,
                .communicator = *communicator,
                .source = source,
                .records = records,
                .stop = stop,
                .lab = &lab});
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

/// Every tensor of three updates with dropout, on ranks with a copy of the model each and on ranks that share one.
TEST_F(RunProbeTest, TwoRunsWithEqualSeedsAreTheSame) {
  TrainConfig config = probed_config();
  config.model.dropout = 0.1;
  config.lab.probe.at = "1u";
  config.lab.probe.updates = 3;
  for (const DType precision : {DType::f32, DType::bf16}) {
    config.training.precision = precision;
    for (const bool shares_memory : {false, true}) {
      train_probed(config, folder / "one", 2, shares_memory, 0);
      train_probed(config, folder / "two", 2, shares_memory, 0);
      for (const char* name : {"probe-update-00000001-rank-0.jsonl", "probe-update-00000001-rank-1.jsonl"}) {
        const Probe a = read_probe(folder / "one" / name), b = read_probe(folder / "two" / name);
        const ProbeComparison comparison = compare_probes(a, b, {});
        EXPECT_EQ(comparison.sameness, Sameness::same) << name;
        EXPECT_TRUE(comparison.header_lines.empty()) << comparison.header_lines[0];
        EXPECT_EQ(comparison.pairs.back().record().update, 3);
        EXPECT_GT(comparison.pairs.size(), 1000U);
      }
    }
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

using testing::MatchesRegex;

class ProbeEnvironment : public testing::Test {
 protected:
  std::unique_ptr<Backend> backend = make_cpu_backend(1);
  std::unique_ptr<Communicator> communicator = make_single_communicator();
  TrainConfig config = small_config();
  ModelReplica replica{config, pieces, *backend, *communicator};
};

std::string text_of(const ProbeHeader& header, std::string_view name) {
  return std::string(header.environment.at(name).as_string());
}

TEST_F(ProbeEnvironment, NamesVersionsAndVariablesThatChangeArithmetic) {
  ::setenv("OPENBLAS_CORETYPE", "Zen", 1);
  const ProbeHeader header = probe_header(config, replica);
  ::unsetenv("OPENBLAS_CORETYPE");
  const LibraryVersions own = own_libraries();
  visit_libraries(own, [&](std::string_view, std::string_view name, const std::string& version) {
    EXPECT_EQ(text_of(header, name), version);
  });
  EXPECT_THAT(text_of(header, "kernel"), MatchesRegex("Linux [0-9].*"));
  EXPECT_EQ(text_of(header, "communication"), communicator->description());
  EXPECT_EQ(text_of(header, "OPENBLAS_CORETYPE"), "Zen");
  EXPECT_EQ(header.device, backend->description());
  EXPECT_FALSE(header.environment.contains("PATH"));
}

TEST_F(ProbeEnvironment, TheRootOfTheWeightsFollowsFromTheSeed) {
  const auto root = [this](std::uint64_t seed) {
    replica.initialize(seed);
    return probe_header(config, replica).weights;
  };
  const std::string one = root(1);
  EXPECT_EQ(one.size(), 64U);
  EXPECT_NE(root(2), one);
  EXPECT_EQ(root(1), one);
}

}  // namespace

}  // namespace babelring
