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

void Waiting::add(double ms) {
  due_ms_ += ms;
  if (due_ms_ >= min_wait_ms) finish();
}

void Waiting::finish() {
  if (due_ms_ <= 0) return;
  const Stopwatch watch;
  std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(due_ms_));
  due_ms_ = std::max(due_ms_ - watch.elapsed_ms(), -max_credit_ms);
}

}  // namespace babelring
