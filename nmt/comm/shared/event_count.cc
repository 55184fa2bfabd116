#include "nmt/comm/shared/event_count.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <ctime>

namespace babelring {

// All accesses are sequentially consistent: wait() sets sleeping_ before it reads the count, and ring() increments the
// count before it reads sleeping_. So either ring() sees the sleeper, or the sleeper sees the new count.

void EventCount::notify() {
  count_.fetch_add(1);
  if (sleeping_.load() != 0) syscall(SYS_futex, &count_, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

void EventCount::wait(std::uint32_t seen, std::chrono::microseconds timeout) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(timeout);
  timespec limit{};
  limit.tv_sec = seconds.count();
  limit.tv_nsec = std::chrono::nanoseconds(timeout - seconds).count();
  sleeping_.store(1);
  syscall(SYS_futex, &count_, FUTEX_WAIT, seen, &limit, nullptr, 0);  // returns at once if the count is not `seen`
  sleeping_.store(0);
}

}  // namespace babelring
