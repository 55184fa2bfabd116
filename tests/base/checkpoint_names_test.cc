#include "base/checkpoint_names.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

namespace babelring {
namespace {

namespace fs = std::filesystem;

TEST(CheckpointNames, TheMarkOfTheBestIsALinkOrAFile) {
  const fs::path folder = testing::TempDir() + "checkpoint_names." + std::to_string(::getpid());
  const fs::path mark = folder / "best";
  fs::create_directories(folder / "update-00000010");
  EXPECT_EQ(best_checkpoint_name(folder), "");
  for (const fs::path& target :
       {fs::path("update-00000010"), fs::path("./update-00000010/"), folder / "update-00000010"}) {
    fs::create_directory_symlink(target, mark);
    EXPECT_EQ(best_checkpoint_name(folder), "update-00000010") << target;
    fs::remove(mark);
  }
  fs::create_directory_symlink("../elsewhere/update-00000010", mark);
  EXPECT_EQ(best_checkpoint_name(folder), "") << "of another folder";
  fs::remove(mark);
  for (const auto& [text, expected] : {std::pair("update-00000010\n", "update-00000010"),
                                       {"update-00000010\r\n", "update-00000010"},
                                       {"update-00000020", "update-00000020"},
                                       {"../update-00000010", ""},
                                       {"my notes\n", ""},
                                       {"", ""}}) {
    std::ofstream(mark) << text;
    EXPECT_EQ(best_checkpoint_name(folder), expected) << text;
  }
  fs::remove_all(folder);
}

}  // namespace
}  // namespace babelring
