#include "lab/record/profile_tool.h"

#include <gtest/gtest.h>

#include "base/files.h"
#include "tests/lab/lab_training.h"
#include "tests/nmt/data/temporary_folder.h"
#include "tests/worker/log_capture.h"

namespace babelring {
namespace {

using lab_training::Records, lab_training::train;

insight::RankRecord read_profile(const std::filesystem::path& file) {
  return insight::rank_record_from_json(parse_json(read_file(file)).value()).value();
}

TEST(ProfileTool, WritesTheRecordOfARunningRankAndChangesNoBits) {
  const TemporaryFolder temporary;
  TrainConfig config = small_config();
  config.training.stop_after = "12u";
  const Records without = train(config, temporary / "lab");
  config.lab.profile = {.start = 4, .updates = 6};
  const Records profiled = train(config, temporary / "lab");
  ASSERT_EQ(profiled.artifacts.size(), 1u);
  const ArtifactRecord& artifact = profiled.artifacts[0];
  EXPECT_EQ(artifact.artifact, "profile");
  EXPECT_EQ(artifact.name, "profile-update-00000009.json");
  EXPECT_EQ(artifact.content.at("jitter").as_array().size(), 6u);
  const insight::RankRecord record = read_profile(temporary / "lab/profile-update-00000009.json");
  EXPECT_EQ(record.neighbours, 0);
  EXPECT_GT(record.parameters, 0);
  EXPECT_NEAR(record.gradient_megabytes(), 4e-6 * static_cast<double>(record.parameters), 1e-9);
  double measured = 0;
  for (std::size_t i = 3; i < 9; ++i) measured += profiled.steps[i].times.step / 6;
  double ops = 0;
  for (const char* phase : {"forward", "backward", "optimizer"}) ops += record.phase_ms(phase).at(record.size);
  EXPECT_GT(ops, 0);
  EXPECT_LT(ops, 2 * measured);
  for (std::size_t i = 0; i < without.steps.size(); ++i) EXPECT_EQ(profiled.steps[i].loss, without.steps[i].loss);
}

TEST(ProfileTool, KeepsWhatItHasWhenTrainingEndsBefore) {
  const TemporaryFolder temporary;
  TrainConfig config = small_config();
  config.training.stop_after = "6u";
  config.lab.profile = {.start = 4, .updates = 20};
  EXPECT_EQ(train(config, temporary / "lab").artifacts.size(), 1u);
  EXPECT_EQ(read_profile(temporary / "lab/profile-update-00000006.json").jitter.size(), 3u);
}

TEST(ProfileTool, WarnsIfTrainingEndsBeforeItsStart) {
  const TemporaryFolder temporary;
  TrainConfig config = small_config();
  config.training.stop_after = "2u";
  config.lab.profile.start = 3;
  const LogCapture log;
  EXPECT_TRUE(train(config, temporary / "lab").artifacts.empty());
  EXPECT_EQ(log.count("lab.profile.start: no profile is written: training ended after update 2, before update 3"), 1)
      << log.text();
}

}  // namespace
}  // namespace babelring
