#include "nmt/metering/step_clock.h"

#include <gtest/gtest.h>

#include <map>

namespace babelring {
namespace {

/// A device that is at `now` in its work; marks lie where the test says.
struct FakeDevice {
  double given = 0;  // ms of work given so far
  double now = 0;    // how far the device is
};

class FakeMarks : public WorkMarks {
 public:
  explicit FakeMarks(FakeDevice& device) : device_(device) {}
  void record(std::size_t mark) override { at_[mark] = device_.given; }
  bool reached(std::size_t mark) override { return at_.at(mark) <= device_.now; }
  double between_ms(std::size_t first, std::size_t second) override {
    EXPECT_TRUE(reached(first) && reached(second)) << "asked for a mark that the device has not come to";
    return at_.at(second) - at_.at(first);
  }
  std::size_t size() const { return at_.size(); }

 private:
  FakeDevice& device_;
  std::map<std::size_t, double> at_;
};

double sum_of_parts(const StepRecord& record) {
  return record.data_ms + record.forward_ms + record.backward_ms + record.exposed_communication_ms +
         record.optimizer_ms + record.other_ms;
}

/// Two micro-batches; the device has come to the gradient's norm, which the host waits for, and not to the end of Adam.
void give_update(StepClock& clock, FakeDevice& device) {
  for (int i = 0; i < 2; ++i) {
    clock.enter(Phase::forward);
    device.given += 10;
    clock.enter(Phase::backward);
    device.given += 20;
  }
  clock.enter(StepPart::communication);
  device.given += 5;
  clock.enter(StepPart::optimizer);
  device.now = device.given;
  device.given += 4;
  clock.enter(StepPart::other);
}

TEST(StepClock, ReadsTheOptimizerOneUpdateLater) {
  FakeDevice device;
  auto owned = std::make_unique<FakeMarks>(device);
  const FakeMarks& marks = *owned;
  StepClock clock(std::move(owned));

  give_update(clock, device);
  StepRecord first{.step_ms = 70, .data_ms = 1};
  clock.fill(first);
  EXPECT_EQ(first.forward_ms, 20);
  EXPECT_EQ(first.backward_ms, 40);
  EXPECT_EQ(first.exposed_communication_ms, 5);
  EXPECT_EQ(first.optimizer_ms, 0);
  EXPECT_EQ(first.other_ms, 4);

  device.given += 100;  // a validation: between updates, no part of a step
  for (int update = 2; update < 20; ++update) {
    give_update(clock, device);
    StepRecord next{.step_ms = 70, .data_ms = 1};
    clock.fill(next);
    EXPECT_EQ(next.forward_ms, 20);
    EXPECT_EQ(next.backward_ms, 40);
    EXPECT_EQ(next.exposed_communication_ms, 5);
    EXPECT_EQ(next.optimizer_ms, 4);
    EXPECT_EQ(next.other_ms, 0);
    EXPECT_EQ(sum_of_parts(next), next.step_ms);
  }
  EXPECT_LE(marks.size(), 12U) << "marks are used again";
}

/// The device worked on Adam while the host waited for data: the wait cost less than the host's clock says.
TEST(StepClock, CountsNoTimeTwice) {
  FakeDevice device;
  StepClock clock(std::make_unique<FakeMarks>(device));
  give_update(clock, device);
  StepRecord unused{.step_ms = 70};
  clock.fill(unused);
  give_update(clock, device);
  StepRecord record{.step_ms = 68, .data_ms = 3};
  clock.fill(record);
  EXPECT_EQ(record.data_ms, 0);
  EXPECT_EQ(record.optimizer_ms, 3);
  EXPECT_EQ(record.other_ms, 0);
  EXPECT_EQ(sum_of_parts(record), record.step_ms);
}

TEST(StepClock, SharesAPassThatIsNotToldApart) {
  FakeDevice device;
  StepClock clock(std::make_unique<FakeMarks>(device));
  clock.enter(StepPart::whole_pass);
  device.given += 30;
  clock.enter(StepPart::optimizer);
  device.now = device.given;
  StepRecord record{.step_ms = 31};
  clock.fill(record);
  EXPECT_EQ(record.forward_ms, 10);
  EXPECT_EQ(record.backward_ms, 20);
  EXPECT_EQ(record.other_ms, 1);
}

TEST(StepClock, TakesTheHostsTimeWhereOpsAreDoneAtOnce) {
  StepClock clock(nullptr);
  const Stopwatch step;
  clock.enter(StepPart::forward);
  const Stopwatch forward;
  while (forward.elapsed_ms() < 3) continue;
  clock.enter(StepPart::optimizer);
  clock.enter(StepPart::other);
  StepRecord record{.step_ms = step.elapsed_ms() + 1, .data_ms = 1};
  clock.fill(record);
  EXPECT_GE(record.forward_ms, 3);
  EXPECT_LT(record.forward_ms, record.step_ms);
  EXPECT_EQ(record.backward_ms, 0);
  EXPECT_GE(record.other_ms, 0);
  EXPECT_NEAR(sum_of_parts(record), record.step_ms, 1e-9);
}

}  // namespace
}  // namespace babelring
