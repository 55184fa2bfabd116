// The measurement of bench_all_reduce, on ranks that are threads, with a GPU whose memory is shut to the host and an
// NCCL that sums there: which sums are taken where, and how far they are off.
#include <gmock/gmock.h>

#include <cstdlib>
#include <thread>

#include "nmt/parallel/device.h"
#include "tests/bench/all_reduce_measurement.h"
#include "tests/nmt/comm/fake_nccl.h"
#include "tests/nmt/comm/thread_communicator.h"
#include "tests/reference/closed_backend.h"

namespace babelring {
namespace {

constexpr AllReduceCase three_buckets{.payload_bytes = 65'536, .bucket_bytes = 25'000};

struct Measured {
  AllReduceTimes times;
  bool staged = false;
};

class AllReduceTest : public testing::Test {
 protected:
  AllReduceTest() { FakeNccl::reset(); }
  ~AllReduceTest() override { FakeNccl::reset(); }

  /// The measurement of rank 0 of two, by NCCL or through host memory.
  static Measured measure(bool nccl, GradientWire wire = GradientWire::f32) {
    ThreadGroup group(2);
    Measured found;
    const auto one_rank = [&](int rank) {
      const auto own = group.rank(rank);
      const auto backend = make_closed_backend();
      GradientComm gradient_comm;
      const CommConfig config{.all_reduce = AllReduceAlgorithm::nccl, .gradient_wire = wire, .bucket_mb = 0.01};
      if (nccl) {
        gradient_comm = choose_gradient_comm(config, three_buckets.payload_bytes, *backend, *own,
                                             [] { return FakeNccl::library(); });
      }
      Communicator& communicator = nccl ? *gradient_comm.nccl : *own;
      MeasuredGradient gradient(*backend, communicator, three_buckets.payload_bytes);
      const AllReduceTimes times = gradient.measure(three_buckets, 2, 0.1);
      if (rank == 0) found = {times, gradient.staged()};
      communicator.barrier();
    };
    std::thread other(one_rank, 1);
    one_rank(0);
    other.join();
    return found;
  }
};

TEST_F(AllReduceTest, NcclSumsInTheMemoryOfTheDevice) {
  const Measured found = measure(true);
  EXPECT_FALSE(found.staged);
  EXPECT_LT(found.times.error, 1e-6);
  ASSERT_EQ(found.times.ms.size(), 2U);
  EXPECT_GE(found.times.ms[0], 0.1);  // it computed meanwhile
  const auto calls = FakeNccl::calls(0);
  ASSERT_EQ(calls.size(), 1U + 3 * 3);  // a trial; known values and two repeats, each in three buckets
  EXPECT_EQ(calls[1].count, 6250U);
  EXPECT_EQ(calls[3].count, 16'384U - 2 * 6250U);
}

TEST_F(AllReduceTest, Bf16OnTheWireIsAsFarOffAsItRounds) {
  const Measured found = measure(true, GradientWire::bf16);
  EXPECT_GT(found.times.error, 1e-4);
  EXPECT_LT(found.times.error, 2 * 2 / 256.0);
  EXPECT_EQ(FakeNccl::calls(0).back().type, nccl_bfloat16);
}

TEST_F(AllReduceTest, WithoutNcclTheGradientGoesThroughTheHost) {
  const Measured found = measure(false);
  EXPECT_TRUE(found.staged);
  EXPECT_LT(found.times.error, 1e-6);
  EXPECT_TRUE(FakeNccl::calls(0).empty());
}

TEST(AllReduceCases, LargeGradientsAreAlsoCutIntoBuckets) {
  EXPECT_EQ(all_reduce_cases(0.05).size(), 1U);
  const auto all = all_reduce_cases(100);
  EXPECT_EQ(all.back().payload_bytes, 100'000'000);
  EXPECT_EQ(all.back().bucket_bytes, 4'000'000);
}

TEST(AllReduceCases, BusBandwidthIsWhatEachRankSends) {
  EXPECT_DOUBLE_EQ(bus_gb_per_s({.payload_bytes = 4'000'000, .bucket_bytes = 4'000'000}, 2, 4), 3);
}

}  // namespace
}  // namespace babelring
