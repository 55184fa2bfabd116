#pragma once

#include <functional>
#include <string>

#include "base/failure.h"
#include "nmt/comm/communicator.h"

namespace babelring {

/// Runs `work` on rank 0 only, for input that only rank 0 can see. If it throws UsageFailure, every rank throws the
/// same; any other exception ends all ranks. Every rank must call this.
inline void run_on_rank_0(Communicator& communicator, const std::function<void()>& work) {
  std::string error;
  if (communicator.rank() == 0) {
    try {
      work();
    } catch (const UsageFailure& failure) {
      error = failure.what();
    }
  }
  error = communicator.all_gather(error)[0];
  if (!error.empty()) throw UsageFailure(error);
}

}  // namespace babelring
