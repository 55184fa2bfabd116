#include "nmt/core/process_mutex.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <system_error>

#include "base/clock.h"
#include "base/failure.h"

namespace babelring {

namespace {

void check_pthread(int error, const char* call) {
  if (error != 0) fail("{}: {}", call, std::generic_category().message(error));
}

/// The wall-clock time in `wait`. If somebody sets the clock, one wait is shorter or longer, no more.
timespec wall_time_in(std::chrono::milliseconds wait) {
  timespec time{};
  clock_gettime(CLOCK_REALTIME, &time);
  const std::chrono::nanoseconds sum = std::chrono::nanoseconds(time.tv_nsec) + wait;
  time.tv_sec += std::chrono::floor<std::chrono::seconds>(sum).count();
  time.tv_nsec = (sum % std::chrono::seconds(1)).count();
  return time;
}

}  // namespace

ProcessMutex::ProcessMutex() {
  pthread_mutexattr_t attributes;
  check_pthread(pthread_mutexattr_init(&attributes), "pthread_mutexattr_init");
  check_pthread(pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED), "pthread_mutexattr_setpshared");
  check_pthread(pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST), "pthread_mutexattr_setrobust");
  check_pthread(pthread_mutex_init(&mutex_, &attributes), "pthread_mutex_init");
  pthread_mutexattr_destroy(&attributes);
}

void ProcessMutex::lock(std::chrono::milliseconds limit, std::string_view purpose) {
  const Stopwatch waited;
  for (;;) {
    const timespec until = wall_time_in(std::min<std::chrono::milliseconds>(limit, std::chrono::seconds(1)));
    int error = pthread_mutex_timedlock(&mutex_, &until);
    if (error == EOWNERDEAD) error = pthread_mutex_consistent(&mutex_);
    if (error == 0) break;
    if (error != ETIMEDOUT) check_pthread(error, "pthread_mutex_timedlock");
    if (waited.elapsed_ms() >= static_cast<double>(limit.count())) {
      fail("{}: process {} of this host has held it for {:.0f} s", purpose, holder_.load(), waited.elapsed_ms() / 1000);
    }
  }
  holder_ = getpid();
}

void ProcessMutex::unlock() {
  pthread_mutex_unlock(&mutex_);
}

}  // namespace babelring
