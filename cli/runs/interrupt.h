#pragma once

#include <functional>
#include <thread>

namespace babelring {

/// For the lifetime of the object, the first SIGINT (Ctrl-C) or SIGTERM calls a function with its number, on a separate
/// thread, instead of ending the process. The second one ends the process. Only one object may exist at a time.
class Interrupt {
 public:
  explicit Interrupt(std::function<void(int signal)> on_interrupt);
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

 private:
  int pipe_[2] = {-1, -1};
  std::thread thread_;
};

}  // namespace babelring
