#include "nmt/lab/memory/memory_tool.h"

#include <gtest/gtest.h>

#include "base/atomic_file.h"
#include "nmt/data/text_source.h"
#include "nmt/lab/make_lab.h"
#include "nmt/train/trainer.h"
#include "tests/nmt/data/synthetic.h"
#include "tests/nmt/data/temporary_folder.h"
#include "tests/nmt/train/small_training.h"

namespace babelring {
namespace {

class Records : public RecordSink {
 public:
  void write(RecordBody body) override {
    if (auto* artifact = std::get_if<ArtifactRecord>(&body)) artifacts.push_back(std::move(*artifact));
    if (auto* step = std::get_if<StepRecord>(&body)) steps.push_back(std::move(*step));
  }
  std::vector<ArtifactRecord> artifacts;
  std::vector<StepRecord> steps;
};

/// Trains four updates and returns the records.
Records train(const TrainConfig& config, const std::filesystem::path& lab_folder) {
  const Corpus corpus = make_synthetic({.sentences = 200, .vocabulary_size = pieces, .max_length = 12});
  const auto backend = make_cpu_backend(1);
  const auto communicator = make_single_communicator();
  Records records;
  SpanLog spans;
  const std::unique_ptr<Lab> lab = make_lab({.config = config,
                                             .folder = lab_folder,
                                             .corpus = corpus.digest(),
                                             .run = "r_1",
                                             .records = records,
                                             .spans = spans});
  const StopRequest stop;
  TextSource source(corpus, config.plan_options());
  Trainer trainer({.config = config,
                   .backend = *backend,
                   .communicator = *communicator,
                   .source = source,
                   .records = records,
                   .stop = stop,
                   .lab = lab.get(),
                   .model_vocabulary = pieces});
  trainer.begin("r_00000000000000000000000000", 1);
  trainer.run();
  return records;
}

TEST(MemoryTool, TracesOneUpdateAndChangesNoBits) {
  const TemporaryFolder temporary;
  TrainConfig config = small_config();
  config.training.stop_after = "4u";
  const Records without = train(config, temporary / "lab");
  EXPECT_FALSE(std::filesystem::exists(temporary / "lab"));
  config.lab.memory.at = 3;
  const Records with = train(config, temporary / "lab");
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(with.steps[i].weights_digest, without.steps[i].weights_digest);

  ASSERT_EQ(with.artifacts.size(), 1U);
  const ArtifactRecord& artifact = with.artifacts[0];
  EXPECT_EQ(artifact.name, "memory-update-00000003-rank-0.json");
  EXPECT_EQ(artifact.update, 3);
  const auto stored = parse_json(read_file(temporary / "lab" / artifact.name));
  EXPECT_EQ(stored.value(), artifact.content);
  const MemoryReport report = memory_report_from_json(*stored).value();
  EXPECT_EQ(report.update, 3);
  EXPECT_EQ(report.source_tokens, with.steps[2].source_tokens);
  const MemoryMoment& peak = report.moments.at(report.peak);
  EXPECT_LE(peak.bytes(), report.saved_peak + report.scratch_peak);
  EXPECT_EQ(report.moments.back().phase, "optimizer");
}

}  // namespace
}  // namespace babelring
