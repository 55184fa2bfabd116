#include "cli/model_options.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "base/failure.h"

namespace babelring {
namespace {

namespace fs = std::filesystem;

/// A run's folder with checkpoints/, removed at the end.
class CheckpointFolder : public testing::Test {
 protected:
  CheckpointFolder() { fs::create_directories(store_); }
  ~CheckpointFolder() override { fs::remove_all(run_); }
  fs::path add(const std::string& name) {
    fs::create_directories(store_ / name);
    std::ofstream(store_ / name / "state.json") << "{}";
    return store_ / name;
  }
  fs::path run_ = fs::temp_directory_path() / ("checkpoint-folder-test-" + std::to_string(getpid()));
  fs::path store_ = run_ / "checkpoints";
};

TEST_F(CheckpointFolder, AcceptsACheckpointFolder) {
  const fs::path checkpoint = add("update-00000010");
  add("update-00000020");
  EXPECT_EQ(find_checkpoint(checkpoint), checkpoint);
}

TEST_F(CheckpointFolder, PrefersTheBestToTheNewest) {
  add("update-00000010");
  const fs::path newest = add("update-00000020");
  fs::create_directories(store_ / "update-00000030");  // without state.json: not complete
  EXPECT_EQ(find_checkpoint(run_), newest);
  EXPECT_EQ(find_checkpoint(store_), newest);
  fs::create_directory_symlink("update-00000010", store_ / "best");
  EXPECT_EQ(find_checkpoint(run_), store_ / "best");
}

TEST_F(CheckpointFolder, ListsTheLast) {
  add("update-00000010");
  const fs::path second = add("update-00000020"), third = add("update-00000100");
  EXPECT_EQ(last_checkpoints(run_, 2), (std::vector<fs::path>{second, third}));
  EXPECT_THROW(last_checkpoints(run_, 4), Failure);
}

TEST_F(CheckpointFolder, DistinguishesARunFolderFromACheckpoint) {
  EXPECT_FALSE(is_run_folder(run_));
  const fs::path checkpoint = add("update-00000010");
  EXPECT_TRUE(is_run_folder(run_));
  EXPECT_TRUE(is_run_folder(store_));
  EXPECT_FALSE(is_run_folder(checkpoint));
  EXPECT_FALSE(is_run_folder(run_ / "nowhere"));
}

TEST_F(CheckpointFolder, OrdersUpdatesByNumber) {
  add("update-99999999");
  const fs::path newest = add("update-100000000");
  add("update-99999999.copy");
  EXPECT_EQ(find_checkpoint(run_), newest);
}

TEST_F(CheckpointFolder, ReportsMissingCheckpoints) {
  EXPECT_THROW(find_checkpoint(run_), Failure);
  EXPECT_THROW(find_checkpoint(run_ / "nowhere"), Failure);
}

}  // namespace

}  // namespace babelring
