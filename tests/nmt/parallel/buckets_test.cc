#include "nmt/parallel/buckets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <thread>

#include "tests/nmt/comm/fake_communicator.h"

namespace babelring {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Throws;
using testing::ThrowsMessage;

/// Parameters of 4, 3, 2 and 6 floats.
class BucketsTest : public testing::Test {
 protected:
  GradientBuckets buckets(std::int64_t bucket_bytes) {
    return {communicator_, Tensor(gradient_.data(), {15}, DType::f32), {{0, 4}, {4, 3}, {7, 2}, {9, 6}}, bucket_bytes};
  }
  std::vector<float> gradient_ = std::vector<float>(15);
  FakeCommunicator communicator_{gradient_.data()};
};

TEST_F(BucketsTest, AreCutFromTheEnd) {
  EXPECT_THAT(buckets(5 * 4).bucket_bytes(), ElementsAre(6 * 4, 5 * 4, 4 * 4));
  EXPECT_THAT(buckets(8 * 4).bucket_bytes(), ElementsAre(8 * 4, 7 * 4));
  EXPECT_THAT(buckets(1 << 20).bucket_bytes(), ElementsAre(15 * 4));
  EXPECT_THAT(buckets(0).bucket_bytes(), ElementsAre(6 * 4, 2 * 4, 3 * 4, 4 * 4));
}

TEST_F(BucketsTest, StartWhenTheirLastParameterIsReady) {
  GradientBuckets two = buckets(8 * 4);
  two.mark_ready(3);
  EXPECT_THAT(communicator_.started, ElementsAre());
  two.mark_ready(2);
  EXPECT_THAT(communicator_.started, ElementsAre(FakeCommunicator::Range{7, 8}));
  two.mark_ready(1);
  two.mark_ready(0);
  EXPECT_THAT(communicator_.started, ElementsAre(FakeCommunicator::Range{7, 8}, FakeCommunicator::Range{0, 7}));
  two.finish();
  EXPECT_EQ(communicator_.finishes, 1);
}

TEST_F(BucketsTest, StartInAFixedOrder) {
  std::vector<std::size_t> order(4);
  std::iota(order.begin(), order.end(), 0);
  GradientBuckets four = buckets(0);
  do {
    communicator_.started.clear();
    four.begin();
    for (const std::size_t parameter : order) four.mark_ready(parameter);
    four.finish();
    EXPECT_THAT(communicator_.started, ElementsAre(FakeCommunicator::Range{9, 6}, FakeCommunicator::Range{7, 2},
                                                   FakeCommunicator::Range{4, 3}, FakeCommunicator::Range{0, 4}));
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_F(BucketsTest, OneParameterCanBeAloneAndFirst) {
  const Tensor flat(gradient_.data(), {15}, DType::f32);
  GradientBuckets first(communicator_, flat, {{0, 4}, {4, 3}, {7, 2}, {9, 6}}, 1 << 20, 0);
  EXPECT_THAT(first.bucket_bytes(), ElementsAre(11 * 4, 4 * 4));
  GradientBuckets middle(communicator_, flat, {{0, 4}, {4, 3}, {7, 2}, {9, 6}}, 1 << 20, 2);
  EXPECT_THAT(middle.bucket_bytes(), ElementsAre(6 * 4, 2 * 4, 7 * 4));
  const FakeCommunicator::Range alone{0, 4}, rest{4, 11};
  first.begin(true);
  first.mark_ready(0);
  EXPECT_THAT(communicator_.started, ElementsAre(alone));
  for (const std::size_t parameter : {3, 2, 1}) first.mark_ready(parameter);
  EXPECT_THAT(communicator_.started, ElementsAre(alone, rest));
  first.finish();
  communicator_.started.clear();
  first.begin();
  for (const std::size_t parameter : {0, 3, 2, 1}) first.mark_ready(parameter);
  EXPECT_THAT(communicator_.started, ElementsAre(rest, alone));
  first.finish();
}

TEST_F(BucketsTest, ReduceInPlace) {
  std::iota(gradient_.begin(), gradient_.end(), 1.0f);
  GradientBuckets three = buckets(5 * 4);
  for (const std::size_t parameter : {3, 2, 1, 0}) three.mark_ready(parameter);
  three.finish();
  for (std::size_t i = 0; i < gradient_.size(); ++i) EXPECT_EQ(gradient_[i], 2.0f * static_cast<float>(i + 1));
}

TEST_F(BucketsTest, NameTheUnmarkedParameter) {
  GradientBuckets two = buckets(8 * 4);
  two.mark_ready(3);
  two.mark_ready(0);
  two.mark_ready(1);
  EXPECT_THAT([&] { two.finish(); }, ThrowsMessage<Failure>(HasSubstr("parameter 2 of 4 was not marked ready")));
}

TEST_F(BucketsTest, RejectInvalidMarks) {
  GradientBuckets two = buckets(8 * 4);
  two.mark_ready(3);
  EXPECT_THAT([&] { two.mark_ready(3); }, ThrowsMessage<Failure>(HasSubstr("parameter 3 marked twice")));
  EXPECT_THAT([&] { two.mark_ready(4); }, ThrowsMessage<Failure>(HasSubstr("parameter 4 marked, there are 4")));
}

TEST_F(BucketsTest, RejectBeginWithBucketsInFlight) {
  GradientBuckets two = buckets(8 * 4);
  two.mark_ready(3);
  two.mark_ready(2);
  EXPECT_THAT([&] { two.begin(); }, ThrowsMessage<Failure>(HasSubstr("1 of 2 buckets in flight")));
}

TEST_F(BucketsTest, RejectGapsBetweenParameters) {
  const Tensor flat(gradient_.data(), {15}, DType::f32);
  EXPECT_THAT([&] { GradientBuckets(communicator_, flat, {{0, 4}, {5, 10}}, 8); },
              ThrowsMessage<Failure>(HasSubstr("parameter 1 has 10 elements at 5, expected it at 4")));
  EXPECT_THAT([&] { GradientBuckets(communicator_, flat, {{0, 4}}, 8); },
              ThrowsMessage<Failure>(HasSubstr("end at 4, the flat gradient has 15")));
}

TEST_F(BucketsTest, PropagateALostPeer) {
  GradientBuckets one = buckets(1 << 20);
  for (const std::size_t parameter : {3, 2, 1, 0}) one.mark_ready(parameter);
  communicator_.lost = true;
  EXPECT_THAT([&] { one.finish(); }, Throws<CommError>());
}

constexpr std::int64_t base = 252'000'000, big = 840'000'000;  // bytes of gradients

/// Delay of an update by its all-reduces, by the formula in the header.
double delay_s(std::int64_t gradient, std::int64_t bucket, const AllReduceModel& model) {
  const auto bytes = static_cast<double>(bucket);
  return static_cast<double>(gradient) / bytes * model.latency_s + bytes / model.bytes_per_s;
}

TEST(BucketSize, MinimizesTheDelay) {
  for (const auto& [ranks, hosts] : {std::pair{2, 1}, {8, 1}, {16, 2}, {64, 8}}) {
    for (const GradientWire wire : {GradientWire::f32, GradientWire::bf16}) {
      const AllReduceModel model = nccl_model(ranks, hosts, wire);
      const std::int64_t best = best_bucket_bytes(big, model);
      for (const std::int64_t other : {host_bucket_bytes, best / 2, best * 9 / 10, best * 11 / 10, best * 2, big}) {
        EXPECT_LE(delay_s(big, best, model), delay_s(big, other, model)) << ranks << " ranks, " << other;
      }
    }
  }
}

TEST(BucketSize, IsTensOfMegabytesForBaseOnOneHost) {
  for (const int ranks : {2, 4, 8}) {
    const std::int64_t bytes = best_bucket_bytes(base, nccl_model(ranks, 1, GradientWire::f32));
    EXPECT_GE(bytes, 25'000'000) << ranks;
    EXPECT_LE(bytes, 50'000'000) << ranks;
  }
}

TEST(BucketSize, StaysWithinHostSizeAndGradientSize) {
  EXPECT_EQ(best_bucket_bytes(1'000'000, nccl_model(8, 1, GradientWire::f32)), host_bucket_bytes);
  EXPECT_EQ(best_bucket_bytes(5'000'000, {.latency_s = 1, .bytes_per_s = 1e9}), 5'000'000);
}

}  // namespace

}  // namespace babelring
