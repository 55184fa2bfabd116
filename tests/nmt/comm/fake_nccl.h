#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "nmt/comm/nccl/functions.h"

namespace babelring {

/// An NCCL for tests. Ranks are threads or processes of one machine; sums are taken in the host's memory, in rank
/// order, by the threads of FakeDeviceStreams, so they run while their rank does something else. What it is to do wrong
/// is said by FakeNccl::plan, on the ranks that are concerned.
struct FakeNccl {
  struct Plan {
    int rank = -1;               // whom the rest concerns; -1: all
    int join_result = 0;         // of ncclCommInitRankConfig, at once: 1 is "unhandled cuda error"
    int join_error = 0;          // joining fails a moment later
    bool never_joins = false;    // it stays in progress
    int connect_polls = 0;       // answers "in progress" before the first all-reduce is queued
    std::int64_t fails_at = -1;  // this all-reduce ends by an error of the transport
    std::int64_t hangs_at = -1;  // this all-reduce never ends on the device
    bool wrong_sums = false;
    bool notices_death = false;  // the transport fails when a rank's process is gone
  };
  /// Set before ranks start.
  static Plan& plan();

  struct Call {
    int rank;
    std::size_t count;
    int type;
  };
  /// All-reduces queued by ranks of this process, in order for each rank; and communicators aborted and destroyed.
  static std::vector<Call> calls(int rank);
  static std::atomic<int>& aborted();
  static std::atomic<int>& destroyed();
  /// Forgets plan, calls and counts.
  static void reset();

  /// What open_nccl_library() would find.
  static NcclLibrary library(int version = 22809);
};

}  // namespace babelring
