#include "nmt/parallel/bucket_size.h"

#include <gtest/gtest.h>

namespace babelring {
namespace {

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
