#include "nmt/ops/cpu/team_waiting.h"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace babelring::cpu {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds look_interval{200};

/// Share of its time that a thread waits for a processor, on average, from which on brief spinning is faster. Threads
/// of this process that only wake for microseconds, as the communication thread does, stay below.
constexpr double competition = 0.15;

// Competition among this job's own threads ends as soon as they spin briefly, and returns when they spin long: each
// such return doubles the time until the next attempt.
constexpr seconds min_patience{2}, max_patience{120}, soon{2};

bool user_decides() {
  return std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr;
}

}  // namespace

std::optional<Nanoseconds> processor_wait() {
  std::error_code error;
  std::int64_t total = -1;
  for (std::filesystem::directory_iterator task("/proc/self/task", error), end; !error && task != end;
       task.increment(error)) {
    std::ifstream file(task->path() / "schedstat");
    std::int64_t ran = 0, waited = 0;
    if (file >> ran >> waited) total = std::max<std::int64_t>(total, 0) + waited;
  }
  return total < 0 ? std::nullopt : std::optional(Nanoseconds(total));
}

TeamWaiting::TeamWaiting(int threads, Wait wait, Clock clock)
    : threads_(threads),
      wait_(std::move(wait)),
      clock_(std::move(clock)),
      adapts_(threads > 1 && !user_decides()),
      looked_(clock_()),
      competed_(looked_),
      released_(looked_ - 2 * soon),
      patience_(min_patience) {
  const auto waited = adapts_ ? wait_() : std::nullopt;
  adapts_ = waited.has_value();
  waited_ = waited.value_or(waited_);
}

void TeamWaiting::look() {
  if (!adapts_) return;
  const auto now = clock_();
  if (now - looked_ < look_interval) return;
  const Nanoseconds waited = wait_().value_or(waited_);
  const double share = static_cast<double>((waited - waited_).count()) / static_cast<double>((now - looked_).count());
  looked_ = now;
  waited_ = waited;
  if (share >= competition * threads_) {
    competed_ = now;
    if (brief()) return;
    patience_ = now - released_ < soon ? std::min<Nanoseconds>(2 * patience_, max_patience) : min_patience;
    spin_briefly();
  } else if (brief() && now - competed_ >= patience_) {
    released_ = now;
    spin_long();
  }
}

void TeamWaiting::spin_briefly() {
  over_ = false;
  idle_team_ = std::thread([this] {
    // The team stays as long as this thread. A region that does nothing would be optimised away.
    std::atomic<int> members{0};
#pragma omp parallel num_threads(std::max(2, omp_get_num_procs() - threads_ + 2))
    ++members;
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return over_; });
  });
}

void TeamWaiting::spin_long() {
  if (!brief()) return;
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_one();
  idle_team_.join();
}

}  // namespace babelring::cpu
