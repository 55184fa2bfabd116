#pragma once

#include <exception>
#include <memory>
#include <thread>
#include <vector>

#include "nmt/train/setup/config.h"
#include "nmt/train/setup/requests.h"

namespace babelring {

/// Ranks that train beside the recorded rank, in threads of this process, and so share its processors, caches
/// and memory as the ranks of a host do. Their gradients are not summed.
class Neighbours {
 public:
  /// Starts `count` trainings of `config` on `threads` CPU threads each and returns when all of them compute.
  Neighbours(const TrainConfig& config, int count, int threads);
  /// Ends them.
  ~Neighbours();
  Neighbours(const Neighbours&) = delete;
  Neighbours& operator=(const Neighbours&) = delete;

  /// Ends them, if that has not happened, and throws what one of them has thrown.
  void finish();

 private:
  void end();

  struct One {
    std::thread thread;
    std::exception_ptr failure;
  };
  StopRequest stop_;
  std::vector<std::unique_ptr<One>> all_;
};

}  // namespace babelring
