#include "lab/parameters/parameter_trace.h"

#include <gmock/gmock.h>

#include <set>
#include <thread>

#include "base/failure.h"
#include "base/files.h"
#include "lab/parameters/window_summary.h"
#include "nmt/data/text_source.h"
#include "nmt/train/trainer.h"
#include "tests/nmt/comm/thread_communicator.h"
#include "tests/nmt/data/synthetic.h"
#include "tests/nmt/data/temporary_folder.h"
#include "tests/nmt/train/trained_rank.h"
#include "tests/worker/log_capture.h"

namespace babelring {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// Reversals in which every other source id never occurs.
Corpus sparse_corpus() {
  std::vector<std::vector<std::int32_t>> sources, targets;
  Random random(3);
  for (int i = 0; i < 200; ++i) {
    std::vector<std::int32_t> source(1 + random.below(10));
    for (std::int32_t& id : source) id = 4 + 2 * static_cast<std::int32_t>(random.below((pieces - 4) / 2));
    targets.emplace_back(source.rbegin(), source.rend());
    sources.push_back(std::move(source));
  }
  return Corpus::from_memory(sources, targets);
}

TrainConfig traced_config(DType precision) {
  TrainConfig config = small_config();
  config.model.tied_embeddings = TiedEmbeddings::decoder;
  config.training.precision = precision;
  config.training.stop_after = "10u";
  config.optimizer.label_smoothing = 0.1;
  return config;
}

/// Trains ranks as threads, each with a trace of windows of 4 updates unless `traced` is false. Returns rank 0's
/// records.
Collector train(const TrainConfig& config, int ranks, bool shares_memory, const fs::path& folder, bool traced = true) {
  const Corpus corpus = sparse_corpus();
  ThreadGroup group(ranks, shares_memory);
  std::vector<Collector> collectors(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const auto communicator = group.rank(rank);
      const auto backend = make_cpu_backend(rank + 1);
      const StopRequest stop;
      Collector& records = collectors[static_cast<std::size_t>(rank)];
      ParameterTrace trace({.window = 4, .run = "r_1", .heads = config.model.heads}, {folder, 20, rank, records});
      TextSource source(corpus, config.plan_options());
      run_rank({.config = config,
                .backend = *backend,
                .communicator = *communicator,
                .source = source,
                .records = records,
                .stop = stop,
                .lab = traced ? &trace : nullptr});
    });
  }
  for (std::thread& thread : threads) thread.join();
  return collectors[0];
}

const TracedParameter& named(const ParameterWindow& window, std::string_view name) {
  for (const TracedParameter& parameter : window.parameters) {
    if (parameter.name == name) return parameter;
  }
  throw Failure("no parameter " + std::string(name));
}

class ParameterTraceTest : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Types, ParameterTraceTest, testing::Values(DType::f32, DType::bf16),
                         [](const auto& tested) { return std::string(name_of(tested.param)); });

TEST_P(ParameterTraceTest, OnlySubwordsThatDoNotOccurStayCold) {
  const TemporaryFolder folder;
  TrainConfig config = traced_config(GetParam());
  const Collector traced = train(config, 1, false, folder.path() / "lab");
  const std::vector<fs::path> files = find_windows(folder.path());
  ASSERT_EQ(files.size(), 3U) << "of 4, 4 and the last 2 updates";
  std::set<std::int64_t> cold;
  const ParameterWindow last = read_window(files[2]);
  EXPECT_EQ(last.first_update, 9);
  EXPECT_EQ(last.updates, 2);
  EXPECT_EQ(last.precision, name_of(GetParam()));
  const ParameterWindow window = read_window(files[1]);
  EXPECT_EQ(window.first_update, 5);
  const std::int64_t source = named(window, "encoder.embedding").first_row;
  for (std::int64_t id = 0; id < pieces; ++id) {
    const RowCount& row = window.rows[static_cast<std::size_t>(source + id)];
    if (row.changed == 0) cold.insert(id);
    EXPECT_EQ(row.changed == 0, row.changed_elements == 0) << id;
  }
  std::set<std::int64_t> absent{0, 1};  // each source ends with </s>, id 2
  for (std::int64_t id = 3; id < pieces; id += 2) absent.insert(id);
  const Corpus corpus = sparse_corpus();
  for (std::int64_t i = 0; i < corpus.sentences(); ++i) {
    for (const std::int32_t id : corpus.source(i)) EXPECT_FALSE(absent.contains(id));
  }
  EXPECT_EQ(cold, absent);
  const TracedParameter& target = named(window, "decoder.embedding");
  EXPECT_EQ(fractions_of(window, target.first_row, target.first_row + target.rows).untouched, 0)
      << "label smoothing gives every row of the output table a gradient";
  const Collector plain = train(config, 1, false, folder.path() / "unused", false);
  EXPECT_EQ(traced.steps.back().weights_digest, plain.steps.back().weights_digest) << "counting changes no bits";
}

/// One copy of the weights, or one for each rank: the same bits in all files.
TEST_P(ParameterTraceTest, RanksOfOneCopyCountAsRanksWithCopies) {
  const TemporaryFolder shared, own;
  train(traced_config(GetParam()), 2, true, shared.path() / "lab");
  train(traced_config(GetParam()), 2, false, own.path() / "lab");
  const std::vector<fs::path> files = find_windows(shared.path());
  ASSERT_EQ(files.size(), 3U);
  for (const fs::path& file : files) {
    const fs::path rows = file.filename().replace_extension("safetensors");
    EXPECT_EQ(read_file(shared.path() / "lab" / rows), read_file(own.path() / "lab" / rows)) << rows;
  }
}

class TracedUpdates : public testing::Test {
 protected:
  /// An update as the trainer tells of it, without Adam.
  void update(std::int64_t number, bool skipped) {
    trace.begin({.update = number, .replica = replica});
    trace.end({.update = number, .skipped = skipped});
  }
  TemporaryFolder folder;
  TrainConfig config = small_config();
  std::unique_ptr<Backend> backend = make_cpu_backend(1);
  std::unique_ptr<Communicator> communicator = make_single_communicator();
  ModelReplica replica{config, pieces, *backend, *communicator};
  Collector records;
  ParameterTrace trace{{.window = 2, .run = "r_1", .heads = 4}, {folder.path() / "lab", 20, 0, records}};
};

TEST_F(TracedUpdates, AWindowOfSkippedUpdatesIsAnErrorInTheLog) {
  const LogCapture log;
  update(1, true);
  update(2, true);
  EXPECT_THAT(log.text(), HasSubstr("lab.parameters: updates 1 to 2 were all skipped; their window is not written"));
  EXPECT_THROW(find_windows(folder.path()), Failure);
}

/// Training goes on.
TEST_F(TracedUpdates, AFolderThatCannotBeWrittenIsAWarningInTheLog) {
  const LogCapture log;
  folder.write("lab", "a file");
  trace.begin({.update = 1, .replica = replica});
  replica.adam.start_step(*backend, 0.1, {});
  trace.end({.update = 1});
  update(2, true);
  EXPECT_THAT(log.text(), HasSubstr("parameters of update 2 is not written: "));
}

TEST_F(TracedUpdates, RowsThatMissAnUpdateAreAFailure) {
  update(1, true);
  EXPECT_THAT([&] { update(2, false); }, ThrowsMessage<Failure>("lab.parameters: a row was counted in 0 of 1 updates"));
}

}  // namespace
}  // namespace babelring
