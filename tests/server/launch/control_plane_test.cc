#include "server/launch/control_plane.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <future>

#include "base/failure.h"
#include "base/names.h"
#include "base/records/records.h"
#include "server/store/control.h"
#include "server/store/runs.h"

namespace babelring::launch {
namespace {

class PurgeTest : public ::testing::Test {
 protected:
  PurgeTest() {
    std::string name = std::filesystem::temp_directory_path() / "babelring-purge-XXXXXX";
    folder_ = mkdtemp(name.data());
    store_ = std::make_unique<store::Store>(folder_ / "data");
  }
  ~PurgeTest() override {
    store_.reset();
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  /// A run with one checkpoint, which its worker says lies in `checkpoint_folder`, deleted at `deleted_ms`.
  std::string deleted_run(const std::filesystem::path& checkpoint_folder, bool checkpoints_too,
                          std::int64_t deleted_ms) {
    const std::string run = make_id('r');
    CheckpointRecord checkpoint;
    checkpoint.update = 10;
    checkpoint.name = "update-00000010";
    checkpoint.folder = checkpoint_folder;
    checkpoint.files = {{"weights.safetensors", 1, std::string(64, '0')}};
    RecordHeader header{.run = run, .attempt = 1, .sequence = 1, .rank = 0, .host = "h", .time_ms = 1};
    std::promise<void> stored;
    store_->submit({run, 1, 0, "h", {{header, checkpoint}}},
                   [&](const store::Batch&, const store::IngestResult&) { stored.set_value(); });
    stored.get_future().get();
    store_->write([&](store::Database& database) { store::delete_run(database, run, checkpoints_too, deleted_ms); });
    return run;
  }
  bool is_there(const std::string& run) {
    auto reader = store_->reader();
    return store::find_run(*reader, run).has_value();
  }

  static constexpr std::int64_t long_ago = 1000, now = long_ago + deleted_kept_ms + 1;
  std::filesystem::path folder_;
  std::unique_ptr<store::Store> store_;
  std::vector<std::string> asked_;
  RemoveCheckpoint ask_ = [this](const store::CheckpointRow& row) { asked_.push_back(row.folder); };
  std::vector<std::string> noted_;
  NotePurge note_ = [this](store::Database&, const std::string& run) { noted_.push_back(run); };
};

TEST_F(PurgeTest, LeavesEveryCheckpointToWhoeverKnowsWhatMayBeRemoved) {
  const auto foreign = folder_ / "update-00000010";
  std::filesystem::create_directory(foreign);
  const std::string run = deleted_run(foreign, true, long_ago);
  purge_deleted_runs(*store_, ask_, note_, now);
  EXPECT_EQ(asked_, std::vector<std::string>{foreign});
  EXPECT_TRUE(std::filesystem::exists(foreign)) << "a worker's word is no leave to remove a folder";
  EXPECT_FALSE(is_there(run));
}

TEST_F(PurgeTest, RemovesARunWhoseCheckpointMustStay) {
  const std::string run = deleted_run(folder_ / "update-00000010", true, long_ago);
  purge_deleted_runs(*store_, [](const store::CheckpointRow&) { fail("no checkpoint of ours"); }, note_, now);
  EXPECT_FALSE(is_there(run));
}

TEST_F(PurgeTest, KeepsCheckpointsUnlessTheyWereToGo) {
  const std::string run = deleted_run(folder_ / "update-00000010", false, long_ago);
  purge_deleted_runs(*store_, ask_, note_, now);
  EXPECT_TRUE(asked_.empty());
  EXPECT_FALSE(is_there(run));
  EXPECT_EQ(noted_, std::vector<std::string>{run});
}

TEST_F(PurgeTest, NoRunGoesWithoutItsNote) {
  const std::string run = deleted_run(folder_ / "update-00000010", false, long_ago);
  const NotePurge full = [](store::Database&, const std::string&) { fail("no room for a row"); };
  EXPECT_THROW(purge_deleted_runs(*store_, ask_, full, now), Failure);
  EXPECT_TRUE(is_there(run));
}

TEST_F(PurgeTest, KeepsARunForAWeek) {
  const std::string run = deleted_run(folder_ / "update-00000010", true, long_ago);
  purge_deleted_runs(*store_, ask_, note_, now - 2);
  EXPECT_TRUE(asked_.empty() && noted_.empty());
  EXPECT_TRUE(is_there(run));
}

}  // namespace

}  // namespace babelring::launch
