#pragma once

#include <gmock/gmock.h>

#include <cmath>

#include "base/digest.h"
#include "nmt/comm/communicator.h"
#include "nmt/comm/mpi/session.h"
#include "nmt/comm/schedule/ring.h"
#include "nmt/core/random.h"

namespace babelring::testing {

/// Rank `rank`'s input of all-reduce number `salt`. Computable on any rank.
inline std::vector<float> values_of(int rank, std::int64_t count, std::uint64_t salt) {
  Random random(derive_seed(5, static_cast<std::uint64_t>(rank), salt));
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = static_cast<float>(random.uniform() * 2 - 1);
  return values;
}

/// An algorithm, a segment size (from one float) and a wire type. Every rank runs the same tests in the same order.
struct Setting {
  AllReduceAlgorithm algorithm;
  std::int64_t segment_bytes;
  GradientWire wire = GradientWire::f32;
  AddOrder order = AddOrder::any;
};

/// True if all hosts have the same number of ranks.
inline bool equal_hosts() {
  const auto any = make_mpi_communicator({.algorithm = AllReduceAlgorithm::ring});
  std::vector<double> first_ranks{any->local_rank() == 0 ? 1.0 : 0.0};
  any->sum(first_ranks);
  std::vector<double> unequal{first_ranks[0] * any->local_size() != any->size() ? 1.0 : 0.0};
  any->sum(unequal);
  return unequal[0] == 0;
}

class CollectivesTest : public ::testing::TestWithParam<Setting> {
 protected:
  CollectivesTest() {
    CommOptions options;
    options.algorithm = GetParam().algorithm;
    options.segment_bytes = GetParam().segment_bytes;
    options.wire = GetParam().wire;
    options.order = GetParam().order;
    options.deadline = std::chrono::seconds(120);
    try {
      communicator_ = make_mpi_communicator(options);
    } catch (const Failure& failure) {
      refusal_ = failure.what();
      const bool of_order = refusal_.find("needs a power of two of ranks") != std::string::npos;
      if (options.order == AddOrder::tree ? !of_order && equal_hosts()
                                          : options.algorithm != AllReduceAlgorithm::two_level || equal_hosts()) {
        throw;
      }
    }
  }
  void SetUp() override {
    if (communicator_ == nullptr) GTEST_SKIP() << refusal_;
  }

  /// The sum of the ranks' inputs in pairs of positions.
  std::vector<float> tree_sum(int first, int ranks, std::int64_t count, std::uint64_t salt) const {
    if (ranks == 1) {
      const RingPosition ring = ring_position(communicator_->hosts(), communicator_->rank());
      return values_of(ring.order[static_cast<std::size_t>(first)], count, salt);
    }
    std::vector<float> sum = tree_sum(first, ranks / 2, count, salt);
    const std::vector<float> right = tree_sum(first + ranks / 2, ranks / 2, count, salt);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += right[i];
    return sum;
  }

  /// The sum of `values` over ranks.
  std::vector<float> reduced(const std::vector<float>& values) {
    const Buffer memory = communicator_->allocate(values.size() * sizeof(float));
    std::copy(values.begin(), values.end(), static_cast<float*>(memory.data()));
    const Tensor tensor = memory.view({static_cast<std::int64_t>(values.size())}, DType::f32);
    communicator_->all_reduce_start(tensor);
    communicator_->all_reduce_finish();
    return {tensor.as<float>(), tensor.as<float>() + values.size()};
  }

  bool on_two_levels() const { return communicator_->description().find("on two levels") != std::string::npos; }
  bool narrow() const { return GetParam().wire != GradientWire::f32; }
  /// True if sums are rounded to int8 in messages.
  bool in_int8() const {
    const int without_messages = on_two_levels() ? communicator_->local_size() : 1;
    return GetParam().wire == GradientWire::int8 && communicator_->size() > without_messages;
  }
  /// The largest error that the wire adds to an element, for inputs up to `largest` of every rank whose magnitudes sum
  /// to `magnitude`. int8: k ranks' partial sum is rounded by at most k / 254 of `largest`, for k = 1 to all.
  double wire_error(double magnitude, double largest) const {
    const int ranks = communicator_->size();
    if (!narrow() || ranks == 1) return 0;
    if (GetParam().wire == GradientWire::bf16) return 1.01 * ranks / 256 * magnitude;
    return 1.01 * largest * ranks * (ranks + 1) / 2 / 254;
  }

  /// Compares with the sum in double within the error bound of GradientWire, and requires equal bits on all ranks.
  /// `errors_before`: the sum was taken where an earlier one left its rounding errors.
  void expect_sum(const std::vector<float>& sum, std::uint64_t salt, bool errors_before = false) {
    const auto count = static_cast<std::int64_t>(sum.size());
    std::vector<double> expected(sum.size()), magnitude(sum.size());
    for (int rank = 0; rank < communicator_->size(); ++rank) {
      const auto values = values_of(rank, count, salt);
      for (std::size_t i = 0; i < values.size(); ++i) {
        expected[i] += static_cast<double>(values[i]);
        magnitude[i] += std::abs(static_cast<double>(values[i]));
      }
    }
    const int ranks = communicator_->size();
    const double errors = errors_before && in_int8() ? 2.1 : 1;
    double excess = 0;
    for (std::size_t i = 0; i < sum.size(); ++i) {
      const double allowed = 1e-6 * ranks + errors * wire_error(magnitude[i], 1);
      excess = std::max(excess, std::abs(expected[i] - static_cast<double>(sum[i])) - allowed);
    }
    EXPECT_EQ(excess, 0) << count << " elements";
    if (GetParam().order == AddOrder::tree) {
      EXPECT_TRUE(sum == tree_sum(0, ranks, count, salt)) << count << " elements";
    }
    Sha256 digest;
    digest.add(sum.data(), sum.size() * sizeof(float));
    const std::string own = digest.hex();
    EXPECT_THAT(communicator_->all_gather(own), ::testing::Each(own)) << count << " elements";
  }

  std::unique_ptr<Communicator> communicator_;
  std::string refusal_;  // why there is no communicator
};

}  // namespace babelring::testing
