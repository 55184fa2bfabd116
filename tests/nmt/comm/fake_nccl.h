#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "nmt/comm/nccl/functions.h"

namespace babelring {

/// A fake NCCL for tests. Ranks are threads or processes of one machine. Sums are computed in host memory, in rank
/// order, by the threads of FakeDeviceStream, so they run concurrently with their rank. FakeNccl::plan selects faults,
/// in the processes of the affected ranks.
struct FakeNccl {
  struct Plan {
    int rank = -1;               // the affected rank; -1: all
    int join_result = 0;         // immediate result of ncclCommInitRankConfig; 1 is "unhandled cuda error"
    int join_error = 0;          // asynchronous error of joining
    bool never_joins = false;    // joining stays in progress
    int connect_polls = 0;       // number of "in progress" results before the first all-reduce is queued
    std::int64_t fails_at = -1;  // index of an all-reduce that fails with a transport error
    std::int64_t hangs_at = -1;  // index of an all-reduce that never ends on the device
    bool wrong_sums = false;
    bool notices_death = false;  // the transport fails when a rank's process has died
  };
  /// Must be set before ranks start.
  static Plan& plan();

  struct Call {
    int rank;
    std::size_t count;
    int type;
  };
  /// All-reduces queued by one rank of this process, in order. aborted() and destroyed() count communicators.
  static std::vector<Call> calls(int rank);
  static std::atomic<int>& aborted();
  static std::atomic<int>& destroyed();
  /// Resets plan, calls and counts.
  static void reset();

  /// The fake library, as open_nccl_library() would return it.
  static NcclLibrary library(int version = 22809);
};

}  // namespace babelring
