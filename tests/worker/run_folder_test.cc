#include "worker/run_folder.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "nmt/base/records.h"
#include "nmt/base/run_fence.h"

namespace babelring {
namespace {

class RunFolderTest : public ::testing::Test {
 protected:
  RunFolderTest() {
    std::string name = std::filesystem::temp_directory_path() / "babelring-folder-XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~RunFolderTest() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path folder_;
  const std::string run_ = make_id('r');
};

TEST_F(RunFolderTest, CountsAttemptsByItself) {
  const RunFolder first(folder_);
  const RunFolder second(folder_);
  EXPECT_EQ(first.attempt(), 1);
  EXPECT_EQ(second.attempt(), 2);
  EXPECT_EQ(second.run(), first.run());
  EXPECT_NO_THROW(second.require_current());
  EXPECT_THROW(first.require_current(), Fenced) << "somebody started the folder again";
}

TEST_F(RunFolderTest, TakesTheNumbersOfAServer) {
  const RunFolder third(folder_, run_, 3);
  EXPECT_EQ(third.attempt(), 3);
  EXPECT_THROW(RunFolder(folder_, run_, 3), Fenced) << "the same attempt twice";
  EXPECT_THROW(RunFolder(folder_, run_, 2), Fenced);
  EXPECT_THROW(RunFolder(folder_, make_id('r'), 4), Failure) << "another run's folder";
  EXPECT_THROW(RunFolder(folder_, "r_x", 4), UsageFailure);
  EXPECT_THROW(check_identity(run_, 0), UsageFailure);
  EXPECT_THROW(check_identity("", 1), UsageFailure);
  EXPECT_NO_THROW(check_identity(run_, 1));
  EXPECT_EQ(RunFolder(folder_).attempt(), 4) << "started by hand";
}

TEST_F(RunFolderTest, AFencedAttemptIsOver) {
  const RunFolder first(folder_, run_, 1);
  first.require_current();
  write_fence(folder_, 1);
  EXPECT_THROW(first.require_current(), Fenced);
  write_fence(folder_, 2);
  EXPECT_THROW(RunFolder(folder_, run_, 2), Fenced) << "given up before it began";
  const RunFolder by_hand(folder_);
  EXPECT_EQ(by_hand.attempt(), 3);
  EXPECT_NO_THROW(by_hand.require_current());
  EXPECT_NO_THROW(RunFolder(folder_, run_, 4).require_current());
}

}  // namespace
}  // namespace babelring
