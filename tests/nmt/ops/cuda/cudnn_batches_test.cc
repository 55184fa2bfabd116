#include "nmt/ops/cuda/cudnn_batches.h"

#include <gtest/gtest.h>

#include <numeric>

namespace babelring::cuda {
namespace {

using Indices = std::vector<std::int32_t>;

Indices offsets_of_lengths(const Indices& lengths) {
  Indices offsets = {0};
  for (const std::int32_t length : lengths) offsets.push_back(offsets.back() + length);
  return offsets;
}

Indices first_indices(std::size_t count) {
  Indices all(count);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

TEST(CudnnBatches, GoByPowersOfTwoOfTheLongerSide) {
  const Indices q = offsets_of_lengths({300, 5, 0, 513, 64, 257}), k = offsets_of_lengths({10, 512, 0, 1, 256, 2});
  const std::vector<CudnnBatch> batches = cudnn_batches(q, k, first_indices(6), 8);
  ASSERT_EQ(batches.size(), 3U);
  EXPECT_EQ(batches[0].length, 1024);
  EXPECT_EQ(batches[0].members, (Indices{3}));
  EXPECT_EQ(batches[1].length, 512);
  EXPECT_EQ(batches[1].members, (Indices{0, 1, 5}));
  EXPECT_EQ(batches[2].length, 256);
  EXPECT_EQ(batches[2].members, (Indices{4}));
}

TEST(CudnnBatches, HoldTheListedSentencesOnly) {
  const Indices offsets = offsets_of_lengths({300, 301, 302, 303});
  const Indices listed = {1, 3};
  const std::vector<CudnnBatch> batches = cudnn_batches(offsets, offsets, listed, 8);
  ASSERT_EQ(batches.size(), 1U);
  EXPECT_EQ(batches[0].members, listed);
  EXPECT_TRUE(cudnn_batches(offsets, offsets, {}, 8).empty());
}

TEST(CudnnBatches, BoundTheScoresOfARun) {
  const Indices offsets = offsets_of_lengths(Indices(40, 1000));
  const std::vector<CudnnBatch> batches = cudnn_batches(offsets, offsets, first_indices(40), 16);
  ASSERT_EQ(batches.size(), 5U);  // 8 sentences of 16 heads and 1024 x 1024 scores are 2^27
  std::int32_t next = 0;
  for (const CudnnBatch& batch : batches) {
    EXPECT_EQ(batch.sentences, 8);
    for (const std::int32_t member : batch.members) EXPECT_EQ(member, next++);
  }
  EXPECT_EQ(next, 40);
  const Indices giant = offsets_of_lengths({100000});
  EXPECT_EQ(cudnn_batches(giant, giant, first_indices(1), 16).front().sentences, 1);
}

TEST(CudnnBatches, TellSentencesOfOneSide) {
  const Indices q = offsets_of_lengths({3, 0, 4, 0}), k = offsets_of_lengths({3, 0, 0, 7});
  EXPECT_FALSE(one_side_is_empty(q, k, Indices{0, 1}));
  EXPECT_TRUE(one_side_is_empty(q, k, Indices{0, 2}));
  EXPECT_TRUE(one_side_is_empty(q, k, Indices{3}));
}

TEST(CudnnLists, SayWhereSentencesBeginAndHowLongTheyAre) {
  const Indices q = offsets_of_lengths({2, 3, 4}), k = offsets_of_lengths({5, 6, 7});
  CudnnShape shape{.sentences = 4, .length = 64, .heads = 2, .head_width = 8};
  shape.strides.of(Packed::q) = 48;
  shape.strides.of(Packed::v) = 32;
  shape.strides.of(Packed::log_sum_exp) = 2;
  const Indices lists = cudnn_lists(shape, Indices{0, 2}, q, k);
  constexpr std::size_t pitch = 8;  // 5, filled up to 32 bytes
  ASSERT_EQ(lists.size(), 11 * pitch);
  const auto list = [&](std::size_t place) {
    return Indices(lists.begin() + static_cast<std::ptrdiff_t>(place * pitch),
                   lists.begin() + static_cast<std::ptrdiff_t>((place + 1) * pitch));
  };
  const auto place_of = [](Packed tensor) { return static_cast<std::size_t>(tensor); };
  EXPECT_EQ(list(place_of(Packed::q)), (Indices{0, 5 * 48, 9 * 48, 9 * 48, 9 * 48, 9 * 48, 9 * 48, 9 * 48}));
  EXPECT_EQ(list(place_of(Packed::v)), (Indices{0, 11 * 32, 18 * 32, 18 * 32, 18 * 32, 18 * 32, 18 * 32, 18 * 32}));
  EXPECT_EQ(list(place_of(Packed::log_sum_exp)), (Indices{0, 10, 18, 18, 18, 18, 18, 18}));
  EXPECT_EQ(list(place_of(Packed::dk)), Indices(pitch, 0));
  EXPECT_EQ(list(9), (Indices{2, 4, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(list(10), (Indices{5, 7, 0, 0, 0, 0, 0, 0}));
}

TEST(CudnnPlans, SaysWhyThereIsNoLibrary) {
  CudnnPlans plans({.capability = 90}, "libno-such-cudnn.so.9");
  EXPECT_TRUE(plans.description().starts_with("no cuDNN: ")) << plans.description();
  EXPECT_EQ(plans.description().find('\n'), std::string::npos);
  ASSERT_FALSE(plans.workspace_bytes({}));
  EXPECT_NE(plans.workspace_bytes({}).error(), "");
}

}  // namespace
}  // namespace babelring::cuda
