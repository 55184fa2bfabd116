#pragma once

#include <functional>
#include <string>

#include "base/failure.h"
#include "nmt/comm/communicator.h"

namespace babelring {

/// Runs `work` on rank 0, for what it alone can see. If it throws UsageFailure, every rank does; any other exception
/// ends all ranks. Every rank calls this.
inline void on_first_rank(Communicator& communicator, const std::function<void()>& work) {
  std::string complaint;
  if (communicator.rank() == 0) {
    try {
      work();
    } catch (const UsageFailure& failure) {
      complaint = failure.what();
    }
  }
  complaint = communicator.all_gather(complaint)[0];
  if (!complaint.empty()) throw UsageFailure(complaint);
}

}  // namespace babelring
