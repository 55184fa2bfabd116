#pragma once

#include <functional>
#include <thread>

namespace babelring {

/// While it lives, the first Ctrl-C (SIGINT) or SIGTERM calls a function, on a thread of its own, instead of ending the
/// process; a second one ends it as usual. One at a time.
class Interrupt {
 public:
  explicit Interrupt(std::function<void()> on_interrupt);
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

 private:
  int pipe_[2] = {-1, -1};
  std::thread thread_;
};

}  // namespace babelring
