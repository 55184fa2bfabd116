#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <utility>

#include "base/clock.h"
#include "base/records/step_times.h"
#include "base/span_log.h"
#include "nmt/core/device_stream.h"
#include "nmt/layers/context.h"

namespace babelring {

/// The phases of an update. `whole_pass` is forward and backward measured together; fill() counts one third of it as
/// forward, which is forward's part of the matmul work.
enum class StepPart { other, forward, backward, whole_pass, communication, optimizer };

/// Measures how an update's time is divided among its parts. On the CPU, where ops are synchronous, it uses the host
/// clock. On a device, times come from events that are polled later and never waited for. The optimizer usually
/// finishes after the update has been recorded, so its time appears in the next record. Not thread-safe.
class StepClock final : public PhaseClock {
 public:
  /// Records an event after the work submitted so far; null where ops are synchronous: see Backend::mark().
  using Mark = std::function<std::unique_ptr<DeviceEvent>()>;
  /// `spans` gets the phases by the host's clock while it records; may be null.
  explicit StepClock(Mark mark, SpanLog* spans = nullptr) : mark_(std::move(mark)), spans_(spans) {}

  /// Starts `part` and ends the previous one. StepPart::other covers the time between updates.
  void enter(StepPart part);
  void enter(Phase phase) override;

  /// Sets the parts so that they add up to `step`. `step` and `data` must already be set. Time in which a device ran
  /// the optimizer while the host waited for data counts as optimizer time.
  void fill(StepTimes& times);

 private:
  struct Span {
    std::unique_ptr<DeviceEvent> begin;
    StepPart part;
  };
  double& ms(StepPart part) { return ms_[static_cast<std::size_t>(part)]; }
  void collect();
  void log_phase();

  Mark mark_;
  SpanLog* spans_;
  SteadyClock::time_point logged_{};  // when the current part began; zero: unknown
  std::deque<Span> open_;             // a device's spans that are not yet known to have ended, oldest first
  Stopwatch watch_;
  StepPart current_ = StepPart::other;
  std::array<double, 6> ms_{};
};

}  // namespace babelring
