#include "base/names.h"

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

TEST(TensorFileName, IsNumberedWhereThereAreShards) {
  EXPECT_EQ(tensor_file_name(weight_tensors), "weights.safetensors");
  EXPECT_EQ(tensor_file_name(weight_tensors, 1, 4), "weights-00002-of-00004.safetensors");
  EXPECT_EQ(tensor_file_name(optimizer_tensors, 1199, 1200), "optimizer-01200-of-01200.safetensors");
}

TEST(TensorFileName, SaysHowManyShardsThereAre) {
  EXPECT_EQ(shards_of_file("weights.safetensors", weight_tensors), 1);
  EXPECT_EQ(shards_of_file("weights-00002-of-00004.safetensors", weight_tensors), 4);
  EXPECT_EQ(shards_of_file("optimizer-01200-of-01200.safetensors", optimizer_tensors), 1200);
  for (const char* other : {"optimizer.safetensors", "optimizer-00001-of-00002.safetensors",
                            "weights-00000-of-00004.safetensors", "weights-00005-of-00004.safetensors",
                            "weights-00001-of-00001.safetensors", "weights-+0001-of-00004.safetensors",
                            "weights-0000x-of-00004.safetensors", "weights-00001-or-00004.safetensors",
                            "weights-00001-of-00004.safetensor", "Weights-00001-of-00004.safetensors", "weights", ""}) {
    EXPECT_EQ(shards_of_file(other, weight_tensors), 0) << other;
  }
}

}  // namespace

}  // namespace babelring
