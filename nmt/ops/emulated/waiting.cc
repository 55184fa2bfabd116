#include "nmt/ops/emulated/waiting.h"

#include <algorithm>
#include <thread>

#include "base/clock.h"

namespace babelring {

namespace {

constexpr double min_wait_ms = 0.1;
// Longer delays are stalls of the machine, which would have stalled a computation too.
constexpr double max_credit_ms = 1;

}  // namespace

double computed_ms(double elapsed_ms, double others_ms, const RankProcessors& processors) {
  if (processors.computing <= 0) return elapsed_ms;
  const double taken_ms = std::max(others_ms - processors.spare * elapsed_ms, 0.0);
  return std::max(elapsed_ms - taken_ms / processors.computing, elapsed_ms / 2);
}

void Waiting::add(double ms) {
  due_ms_ += ms;
  if (due_ms_ >= min_wait_ms) finish();
}

void Waiting::finish() {
  while (due_ms_ > 0) {
    const Stopwatch watch;
    const double others_before_ms = other_threads_ms();
    std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(due_ms_));
    due_ms_ -= computed_ms(watch.elapsed_ms(), other_threads_ms() - others_before_ms, processors_);
  }
  due_ms_ = std::max(due_ms_, -max_credit_ms);
}

}  // namespace babelring
