#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nmt/core/random.h"

namespace babelring::emulation {

/// A place in a stream that others wait for, once for each recording of an event.
struct Mark {
  bool reached = false;
  std::chrono::steady_clock::time_point when;
};

struct Task {
  std::function<std::string()> work;   // returns what went wrong
  std::shared_ptr<const Mark> awaits;  // not before it is reached
  const void* kernel = nullptr;        // of a launch
  std::size_t shared_bytes = 0;        // its dynamic shared memory
};

struct Stream {
  std::deque<Task> queue;
  std::unique_ptr<std::vector<Task>> captured;  // while a graph is recorded
};

/// Queues that run as late as can be: when somebody waits. Of several streams chance decides which goes on, so only
/// events order them.
class Streams {
 public:
  Stream* create();
  void destroy(Stream* stream);
  void run_all();
  /// Until the stream is empty, or the mark reached.
  void run_until_empty(const Stream& stream);
  void run_until(const Mark& mark);
  /// One task of some stream; false if there is none that can go on.
  bool run_one();
  /// Something went wrong outside of any task.
  void fail(std::string fault) {
    if (fault_.empty()) fault_ = std::move(fault);
  }
  /// The error since the last call.
  std::string take_fault() { return std::exchange(fault_, {}); }

 private:
  std::list<Stream> streams_;
  Random random_{20261121};
  std::string fault_;
};

}  // namespace babelring::emulation
