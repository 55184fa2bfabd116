#include "nmt/core/device_stream.h"

#include <gtest/gtest.h>

namespace babelring {
namespace {

/// Reached at `ms` of a device's clock, after it was asked `polls` times.
class ClockEvent final : public DeviceEvent {
 public:
  explicit ClockEvent(double ms, int polls = 0) : ms_(ms), polls_(polls) {}
  bool reached() const override { return polls_-- <= 0; }
  double ms_since(const DeviceEvent& earlier) const override {
    return ms_ - static_cast<const ClockEvent&>(earlier).ms_;
  }

 private:
  double ms_;
  mutable int polls_;
};

TEST(DeviceClockTest, AddsDeviceTimeToTheHostsTimeOfTheAnchor) {
  const auto before = SteadyClock::now();
  const DeviceClock clock(std::make_unique<ClockEvent>(1e6, 3));
  const auto after = SteadyClock::now();
  const auto anchor = clock.at(ClockEvent(1e6));
  EXPECT_LE(before, anchor);
  EXPECT_LE(anchor, after);
  EXPECT_EQ(clock.at(ClockEvent(1e6 + 2.5)) - anchor, std::chrono::microseconds(2500));
}

}  // namespace

}  // namespace babelring
