#include "lab/record/measure_link.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "tests/nmt/comm/thread_communicator.h"

namespace babelring {
namespace {

TEST(MeasureLinkTest, BothEndsGetTheSameFigures) {
  ThreadGroup group(2);
  std::vector<MeasuredLink> measured(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      const auto communicator = group.rank(rank);
      measured[static_cast<std::size_t>(rank)] = measure_link(*communicator, 1, 3, GradientWire::f32);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(measured[0].large_mb, 1);
  EXPECT_GT(measured[0].link.gbit_per_s, 0);
  EXPECT_GE(measured[0].link.rate_error, 0);
  EXPECT_EQ(measured[0].link.latency_us, measured[0].small_ms * 500) << "two messages, one after the other";
  EXPECT_EQ(measured[0].link.gbit_per_s, measured[1].link.gbit_per_s);
  EXPECT_EQ(measured[0].link.busy_ms_per_gb, measured[1].link.busy_ms_per_gb);
}

TEST(MeasureLinkTest, RefusesOtherNumbersOfRanks) {
  EXPECT_THROW(measure_link(*make_single_communicator(), 1, 3, GradientWire::f32), UsageFailure);
}

}  // namespace
}  // namespace babelring
