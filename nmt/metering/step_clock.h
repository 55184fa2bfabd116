#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/records.h"
#include "nmt/layers/context.h"
#include "nmt/ops/work_marks.h"

namespace babelring {

/// whole_pass is forward and backward measured as one; by its share of the products, a third counts as forward.
enum class StepPart { other, forward, backward, whole_pass, communication, optimizer };

/// Splits an update's time between its parts. Where ops are done when run() returns, by the host's clock; on a device
/// by marks in the order of its work, which are looked at later: nothing is waited for, and what the device has not
/// come to when an update ends, its optimizer, is in the next update's record.
class StepClock final : public PhaseClock {
 public:
  /// `marks`: the device's; null for the host's clock.
  explicit StepClock(std::unique_ptr<WorkMarks> marks) : marks_(std::move(marks)) {}

  /// What follows belongs to `part`; to StepPart::other belongs what is between updates.
  void enter(StepPart part);
  void enter(Phase phase) override;

  /// Fills the parts of `record`, which has step_ms and data_ms already; all parts add up to step_ms. Where a device
  /// still ran the optimizer while the host waited for data, that time counts as the optimizer's.
  void fill(StepRecord& record);

 private:
  struct Stretch {
    std::size_t mark;
    StepPart part;
  };
  double& ms(StepPart part) { return ms_[static_cast<std::size_t>(part)]; }
  void collect();

  std::unique_ptr<WorkMarks> marks_;
  std::deque<Stretch> open_;        // begun in this order; the first is the oldest that was not seen to end
  std::vector<std::size_t> spare_;  // marks to use again
  std::size_t marks_made_ = 0;
  Stopwatch watch_;
  StepPart current_ = StepPart::other;
  std::array<double, 6> ms_{};
};

}  // namespace babelring
