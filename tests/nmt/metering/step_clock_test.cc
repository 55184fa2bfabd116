#include "nmt/metering/step_clock.h"

#include <gtest/gtest.h>

#include <memory>

namespace babelring {
namespace {

/// A simulated device timeline.
struct FakeDevice {
  double queued = 0;  // ms of queued work
  double now = 0;     // ms of completed work
  int events = 0;     // that exist
};

class FakeEvent final : public DeviceEvent {
 public:
  explicit FakeEvent(FakeDevice& device) : device_(device), at_(device.queued) { ++device_.events; }
  ~FakeEvent() override { --device_.events; }
  FakeEvent(const FakeEvent&) = delete;
  FakeEvent& operator=(const FakeEvent&) = delete;
  bool reached() const override { return at_ <= device_.now; }
  double ms_since(const DeviceEvent& earlier) const override {
    EXPECT_TRUE(reached() && earlier.reached()) << "queried an event that the device has not reached";
    return at_ - static_cast<const FakeEvent&>(earlier).at_;
  }

 private:
  FakeDevice& device_;
  double at_;
};

StepClock clock_of(FakeDevice& device) {
  return StepClock([&device] { return std::make_unique<FakeEvent>(device); });
}

/// Queues an update of two micro-batches. The device completes the gradient norm, which the host waits for, but not
/// Adam.
void queue_update(StepClock& clock, FakeDevice& device) {
  for (int i = 0; i < 2; ++i) {
    clock.enter(Phase::forward);
    device.queued += 10;
    clock.enter(Phase::backward);
    device.queued += 20;
  }
  clock.enter(StepPart::communication);
  device.queued += 5;
  clock.enter(StepPart::optimizer);
  device.now = device.queued;
  device.queued += 4;
  clock.enter(StepPart::other);
}

TEST(StepClock, ReportsTheOptimizerOneUpdateLater) {
  FakeDevice device;
  StepClock clock = clock_of(device);

  queue_update(clock, device);
  StepTimes first{.step = 70, .data = 1};
  clock.fill(first);
  EXPECT_EQ(first.forward, 20);
  EXPECT_EQ(first.backward, 40);
  EXPECT_EQ(first.exposed_communication, 5);
  EXPECT_EQ(first.optimizer, 0);
  EXPECT_EQ(first.other, 4);

  device.queued += 100;  // a validation between updates, not part of a step
  for (int update = 2; update < 20; ++update) {
    queue_update(clock, device);
    StepTimes next{.step = 70, .data = 1};
    clock.fill(next);
    EXPECT_EQ(next.forward, 20);
    EXPECT_EQ(next.backward, 40);
    EXPECT_EQ(next.exposed_communication, 5);
    EXPECT_EQ(next.optimizer, 4);
    EXPECT_EQ(next.other, 0);
    EXPECT_EQ(next.sum_of_parts(), next.step);
  }
  EXPECT_LE(device.events, 12) << "events of past updates are released";
}

/// The device ran Adam while the host waited for data, so data_ms is shorter than the wait.
TEST(StepClock, DoesNotCountOverlapTwice) {
  FakeDevice device;
  StepClock clock = clock_of(device);
  queue_update(clock, device);
  StepTimes unused{.step = 70};
  clock.fill(unused);
  queue_update(clock, device);
  StepTimes record{.step = 68, .data = 3};
  clock.fill(record);
  EXPECT_EQ(record.data, 0);
  EXPECT_EQ(record.optimizer, 3);
  EXPECT_EQ(record.other, 0);
  EXPECT_EQ(record.sum_of_parts(), record.step);
}

TEST(StepClock, DividesAWholePass) {
  FakeDevice device;
  StepClock clock = clock_of(device);
  clock.enter(StepPart::whole_pass);
  device.queued += 30;
  clock.enter(StepPart::optimizer);
  device.now = device.queued;
  StepTimes record{.step = 31};
  clock.fill(record);
  EXPECT_EQ(record.forward, 10);
  EXPECT_EQ(record.backward, 20);
  EXPECT_EQ(record.other, 1);
}

TEST(StepClock, UsesTheHostClockForSynchronousOps) {
  StepClock clock([] { return nullptr; });
  const Stopwatch step;
  clock.enter(StepPart::forward);
  const Stopwatch forward;
  while (forward.elapsed_ms() < 3) continue;
  clock.enter(StepPart::optimizer);
  clock.enter(StepPart::other);
  StepTimes record{.step = step.elapsed_ms() + 1, .data = 1};
  clock.fill(record);
  EXPECT_GE(record.forward, 3);
  EXPECT_LT(record.forward, record.step);
  EXPECT_EQ(record.backward, 0);
  EXPECT_GE(record.other, 0);
  EXPECT_NEAR(record.sum_of_parts(), record.step, 1e-9);
}

TEST(StepClock, LogsPhasesByTheHostsClockWhileTheLogRecords) {
  SpanLog log;
  StepClock clock([] { return nullptr; }, &log);
  clock.enter(Phase::forward);
  clock.enter(StepPart::other);
  log.record(true);
  clock.enter(Phase::forward);  // `other` began before the log recorded
  clock.enter(Phase::backward);
  clock.enter(Phase::backward);
  clock.enter(StepPart::communication);
  const std::vector<LoggedSpan> spans = log.take();
  ASSERT_EQ(spans.size(), 2U);
  EXPECT_EQ(spans[0].name, "forward");
  EXPECT_EQ(spans[1].name, "backward");
  EXPECT_EQ(spans[1].category, "phase");
  EXPECT_EQ(spans[0].end, spans[1].begin);
  log.record(false);
  clock.enter(StepPart::optimizer);
  clock.enter(StepPart::other);
  EXPECT_TRUE(log.take().empty());
}

}  // namespace
}  // namespace babelring
