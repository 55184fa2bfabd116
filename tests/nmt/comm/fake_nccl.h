#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "nmt/comm/nccl/functions.h"

namespace babelring {

/// A fake NCCL for tests. Ranks are threads or processes of one machine. Its collectives run in host memory,
/// by the threads of FakeDeviceStream, so they run concurrently with their rank; sums are added in rank order.
/// FakeNccl::plan selects faults, in the processes of the affected ranks.
struct FakeNccl {
  struct Plan {
    int rank = -1;                 // the affected rank; -1: all
    int join_result = 0;           // immediate result of ncclCommInitRankConfig; 1 is "unhandled cuda error"
    int join_error = 0;            // asynchronous error of joining
    bool never_joins = false;      // joining stays in progress
    int connect_polls = 0;         // number of "in progress" results before the first collective is queued
    std::int64_t fails_at = -1;    // index of a collective that fails with a transport error
    std::int64_t hangs_at = -1;    // index of a collective that never ends on the device
    std::int64_t refused_at = -1;  // index of a collective whose call fails at once, as a CUDA error
    int max_delay_us = 0;          // each collective of each rank begins late by a random time up to this
    bool wrong_sums = false;
    bool notices_death = false;  // the transport fails when a rank's process has died
  };
  /// Must be set before ranks start.
  static Plan& plan();

  struct Call {
    std::string function;  // "all-reduce", "reduce-scatter", "all-gather" or "broadcast"
    int rank;
    std::size_t count;  // as passed: of an all-reduce or a broadcast, or of one rank
    int type;
  };
  /// Collectives queued by one rank of this process, in order. aborted() and destroyed() count communicators.
  static std::vector<Call> calls(int rank);
  static std::atomic<int>& aborted();
  static std::atomic<int>& destroyed();
  /// Resets plan, calls and counts.
  static void reset();

  /// The fake library, as open_nccl_library() would return it.
  static NcclLibrary library(int version = 22809);
};

}  // namespace babelring
