#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "base/clock.h"
#include "nmt/ops/cpu/cpu_context.h"
#include "nmt/ops/every_op.h"

namespace babelring::cpu {

/// The total time for which threads of this process were ready to run but had no processor. Absent if Linux does not
/// report it.
std::optional<Nanoseconds> processor_wait();

/// Shortens the spinning of OpenMP threads while other threads compete for their processors. A libgomp thread that
/// waits for its team spins for some milliseconds before it sleeps. That is fastest if each thread has a processor, but
/// if the awaited thread needs the spinning thread's processor, each wait takes those milliseconds. libgomp spins 3,000
/// times less while it has more threads than the process has processors (its manual, GOMP_SPINCOUNT). This class
/// therefore keeps an idle team as long as threads wait for processors. It does nothing for one thread, or if the user
/// has set OMP_WAIT_POLICY or GOMP_SPINCOUNT. Not thread-safe.
class TeamWaiting {
 public:
  using Clock = std::function<SteadyClock::time_point()>;
  using Wait = std::function<std::optional<Nanoseconds>()>;
  /// `threads`: the size of the team. Tests pass their own `wait` and `clock`.
  explicit TeamWaiting(int threads, Wait wait = processor_wait, Clock clock = SteadyClock::now);
  ~TeamWaiting() { spin_long(); }
  TeamWaiting(const TeamWaiting&) = delete;
  TeamWaiting& operator=(const TeamWaiting&) = delete;

  /// Checks, at most five times a second, how long threads have waited for processors. Call it between parallel loops.
  void look();
  /// True while threads spin briefly.
  bool brief() const { return idle_team_.joinable(); }

 private:
  void spin_briefly();
  void spin_long();

  const int threads_;
  const Wait wait_;
  const Clock clock_;
  Nanoseconds waited_{0};  // at the last look
  bool adapts_;
  SteadyClock::time_point looked_;
  SteadyClock::time_point competed_;  // last; in brief mode
  SteadyClock::time_point released_;  // when brief mode ended last
  Nanoseconds patience_;              // without competition, until threads spin long again
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;  // the idle team is to end; guarded by mutex_
  std::thread idle_team_;
};

/// Runs ops synchronously on the calling thread and its OpenMP team.
class CpuBackend final : public EveryOp<CpuBackend> {
 public:
  explicit CpuBackend(int threads);

  std::unique_ptr<const PackedWeight> pack(ConstTensor weight) override;
  void upload(const void* host, Tensor to) override;
  void download(ConstTensor from, void* host) override;
  void synchronize() override {}
  void fix_blocking() override { context_.fix_blocking(); }
  std::string description() const override;
  template <class Op>
  void launch(const Op& op);

 private:
  Buffer do_allocate(std::size_t bytes, MemoryPurpose) override { return allocate_host(bytes); }

  CpuContext context_;
  TeamWaiting waiting_;
};

}  // namespace babelring::cpu
