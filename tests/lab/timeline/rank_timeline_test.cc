#include "lab/timeline/rank_timeline.h"

#include <gmock/gmock.h>

#include <cmath>

#include "nmt/core/random.h"

namespace babelring {
namespace {

using std::chrono::microseconds;

SteadyClock::time_point at_ns(double ns) {
  return SteadyClock::time_point(Nanoseconds(std::llround(ns)));
}

/// A rank's clock that runs faster than rank 0's by `drift` and shows `start_ns` when rank 0's shows 0.
struct MadeClock {
  double start_ns, drift;
  SteadyClock::time_point own(double true_ns) const { return at_ns(start_ns + true_ns * (1 + drift)); }

  /// `count` round trips from `true_ns` on, with random delays in both directions.
  std::vector<RoundTrip> round_trips(double true_ns, int count, std::uint64_t seed) const {
    Random random(seed);
    std::vector<RoundTrip> trips;
    for (int i = 0; i < count; ++i) {
      const double there = 5e3 + 3e5 * random.uniform(), back = 5e3 + 3e5 * random.uniform();
      trips.push_back({own(true_ns), own(true_ns + there + back), at_ns(true_ns + there)});
      true_ns += there + back;
    }
    return trips;
  }
};

TEST(ClockOffsetTest, TakesTheMiddleOfTheFastestRoundTrip) {
  const std::vector<RoundTrip> trips = {{at_ns(0), at_ns(9000), at_ns(1008000)},
                                        {at_ns(10000), at_ns(10200), at_ns(1010050)},
                                        {at_ns(20000), at_ns(21000), at_ns(1020100)}};
  const auto offset = clock_offset(trips);
  ASSERT_TRUE(offset);
  EXPECT_EQ(offset->at, at_ns(10100));
  EXPECT_EQ(offset->ahead.count(), 999950);
  EXPECT_EQ(offset->error.count(), 100);
  EXPECT_FALSE(clock_offset({}));
}

TEST(ClockOffsetTest, TrueTimesLieWithinTheErrorBound) {
  for (const double drift : {0.0, 40e-6, -120e-6}) {
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
      const MadeClock clock{.start_ns = 7e9 * (static_cast<double>(seed) - 20) + 2e11, .drift = drift};
      const auto before = clock_offset(clock.round_trips(1e9, 64, seed));
      const auto after = clock_offset(clock.round_trips(6e9, 64, seed + 1000));
      const ClockMap map(before.value(), after.value());
      for (const double true_ns : {1.05e9, 2e9, 4.7e9, 6e9}) {
        const Nanoseconds wrong = map.on_rank_0(clock.own(true_ns)) - at_ns(true_ns);
        EXPECT_LE(std::abs(static_cast<double>(wrong.count())), static_cast<double>(map.error().count()) + 3)
            << drift << " " << seed << " " << true_ns;
      }
      EXPECT_LT(map.error(), microseconds(150));
      EXPECT_NEAR(map.drift_ppm(), -drift * 1e6, 60);
    }
  }
}

TEST(ClockOffsetTest, OneMeasurementTwiceIsAConstantOffset) {
  const ClockOffset offset{.at = at_ns(50), .ahead = Nanoseconds(1000), .error = Nanoseconds(3)};
  const ClockMap map(offset, offset);
  EXPECT_EQ(map.on_rank_0(at_ns(7)), at_ns(1007));
  EXPECT_EQ(map.drift_ppm(), 0);
  EXPECT_EQ(map.error().count(), 3);
}

TEST(ClockOffsetTest, Rank0IsItsOwnReference) {
  const auto alone = make_single_communicator();
  const auto offset = measure_clock_offset(*alone);
  ASSERT_TRUE(offset);
  EXPECT_EQ(offset->ahead.count(), 0);
  EXPECT_EQ(offset->error.count(), 0);
}

}  // namespace

}  // namespace babelring
