#include "base/tensor_file_name.h"

#include <gtest/gtest.h>

namespace babelring {
namespace {

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
