#include "lab/memory/memory_tool.h"

#include <gtest/gtest.h>

#include "base/atomic_file.h"
#include "tests/nmt/data/temporary_folder.h"
#include "tests/lab/lab_training.h"

namespace babelring {
namespace {

using lab_training::Records, lab_training::train;

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
