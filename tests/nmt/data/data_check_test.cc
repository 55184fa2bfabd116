#include "nmt/data/data_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/failure.h"
#include "base/result.h"
#include "nmt/data/manifest.h"
#include "tests/nmt/data/temporary_folder.h"
#include "tests/soon.h"

namespace babelring {
namespace {

class DataCheckTest : public testing::Test {
 protected:
  DataCheckTest() {
    for (const char* name : {"a.ids", "b.ids"}) {
      folder_.write(name, std::string(3'000'000, name[0]));
      files_.push_back(describe_file(folder_.path(), name));
    }
  }
  /// The result of a whole check.
  Status checked() const {
    DataCheck check(folder_.path(), files_);
    check.start();
    EXPECT_TRUE(soon([&] { return check.ended_within(std::chrono::milliseconds(10)); }));
    EXPECT_EQ(check.found_damage(), !check.result().ok());
    return check.result();
  }

  const TemporaryFolder folder_;
  std::vector<ManifestFile> files_;
};

TEST_F(DataCheckTest, FilesWithTheirDigestsAreGood) {
  EXPECT_TRUE(checked());
}

TEST_F(DataCheckTest, NamesTheFileWhoseContentDiffersAtEqualSize) {
  std::string content(3'000'000, 'b');
  content[2'999'999] = '\0';
  folder_.write("b.ids", content);
  EXPECT_EQ(checked().error(),
            fmt::format("{}: damaged, its SHA-256 is {}, expected {} by its manifest", (folder_ / "b.ids").string(),
                        describe_file(folder_.path(), "b.ids").sha256, files_[1].sha256));
}

TEST_F(DataCheckTest, AFileThatIsReplacedMeanwhileIsStillTheOldOne) {
  DataCheck check(folder_.path(), files_);
  std::filesystem::remove(folder_ / "a.ids");
  folder_.write("a.ids", "of another preparation");
  check.start();
  EXPECT_TRUE(soon([&] { return check.ended_within(std::chrono::milliseconds(10)); }));
  EXPECT_TRUE(check.result());
}

TEST_F(DataCheckTest, EndsWithoutReadingAll) {
  std::filesystem::resize_file(folder_ / "a.ids", std::uintmax_t{1} << 38);  // sparse: would take minutes
  DataCheck check(folder_.path(), files_);
  check.start();
  EXPECT_FALSE(check.ended_within(std::chrono::milliseconds(1)));
}

TEST_F(DataCheckTest, AFileThatCannotBeOpenedIsAFailure) {
  std::filesystem::remove(folder_ / "b.ids");
  EXPECT_THAT(
      [&] { DataCheck check(folder_.path(), files_); },
      testing::ThrowsMessage<Failure>((folder_ / "b.ids").string() + ": cannot open: No such file or directory"));
}

}  // namespace
}  // namespace babelring
