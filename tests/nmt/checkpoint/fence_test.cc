#include <gtest/gtest.h>

#include <filesystem>

#include "base/failure.h"
#include "base/records/run_marks.h"
#include "nmt/checkpoint/store.h"

namespace babelring {
namespace {

namespace fs = std::filesystem;

class FenceTest : public ::testing::Test {
 protected:
  FenceTest() {
    std::string name = fs::temp_directory_path() / "babelring-fence-XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~FenceTest() override { fs::remove_all(folder_); }
  static CheckpointContent content(std::int64_t update) { return {.update = update}; }
  std::vector<std::string> names(const CheckpointStore& store) const {
    std::vector<std::string> names;
    for (const fs::path& path : store.list()) names.push_back(path.filename());
    return names;
  }
  fs::path folder_;
};

TEST_F(FenceTest, FencedAttemptsCheckpointNeverAppears) {
  CheckpointStore store(folder_, 5);
  store.save(content(1), [] {});
  EXPECT_THROW(store.save(content(2), [] { throw Fenced("attempt 1 is over"); }), Fenced);
  EXPECT_EQ(names(store), std::vector<std::string>{"update-00000001"});
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1) << "nothing is left behind";
}

TEST_F(FenceTest, LaterCheckpointsAreMovedAsideAndMayRecur) {
  CheckpointStore store(folder_, 5);
  for (const std::int64_t update : {10, 20, 30}) store.save(content(update));
  const auto moved = store.move_aside_after(10);
  ASSERT_EQ(moved.size(), 2U);
  EXPECT_EQ(moved[0].update, 20);
  EXPECT_TRUE(moved[0].removed);
  EXPECT_EQ(store.latest()->update, 10);
  store.save(content(20));
  EXPECT_EQ(store.move_aside_after(10).size(), 1U) << "another checkpoint of the same name is already there";
  EXPECT_TRUE(fs::exists(folder_ / "aside/update-00000020"));
  EXPECT_TRUE(fs::exists(folder_ / "aside/update-00000020-2"));
  EXPECT_TRUE(store.move_aside_after(10).empty());
}

TEST_F(FenceTest, AFolderWithoutTheExpectedCheckpointIsAnother) {
  CheckpointStore store(folder_, 5);
  EXPECT_NO_THROW(store.require(0));
  try {
    store.require(100);
    FAIL() << "an empty folder, as of a disk that is not mounted";
  } catch (const UsageFailure& failure) {
    const std::string text = failure.what();
    EXPECT_NE(text.find("expected the checkpoint of update 100 or a later one, found none"), std::string::npos) << text;
  }
  for (const std::int64_t update : {90, 100}) store.save(content(update));
  EXPECT_NO_THROW(store.require(100));
  EXPECT_THROW(store.require(101), UsageFailure);
  fs::resize_file(folder_ / "update-00000100/state.json", 1);
  EXPECT_NO_THROW(store.require(100)) << "damaged, but here: the one before it is used";
  EXPECT_EQ(store.latest()->update, 90);
  store.move_aside_after(90);
  EXPECT_NO_THROW(store.require(100)) << "training went back, and the server may not know yet";
}

TEST_F(FenceTest, TooLargeNumberIsNotACheckpoint) {
  CheckpointStore store(folder_, 5);
  store.save(content(10));
  fs::create_directory(folder_ / "update-99999999999999999999");
  EXPECT_EQ(names(store), std::vector<std::string>{"update-00000010"});
  EXPECT_TRUE(store.move_aside_after(10).empty());
}

TEST_F(FenceTest, NewCheckpointDoesNotInheritBestByName) {
  CheckpointStore store(folder_, 5);
  store.save(content(10));
  CheckpointContent best = content(20);
  best.best = true;
  best.loss = 2.5;
  store.save(best);
  EXPECT_EQ(fs::read_symlink(folder_ / "best"), "update-00000020");
  store.move_aside_after(10);
  store.save(content(20));
  EXPECT_FALSE(fs::exists(folder_ / "best"));
}

}  // namespace
}  // namespace babelring
