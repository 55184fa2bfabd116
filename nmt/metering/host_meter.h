#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/clock.h"
#include "base/records/records.h"
#include "nmt/core/memory_ledger.h"
#include "nmt/metering/network_counters.h"
#include "nmt/ops/backend.h"

namespace babelring {

/// Measures a step's use of the host: network traffic, CPU time and memory by purpose. Not thread-safe.
class HostMeter {
 public:
  /// `counts_network`: true on one rank of each host; the others report 0. `threads`: compute threads of this rank, for
  /// busy_fraction; 0 if a device computes, whose busy time is the sum of the step's parts.
  HostMeter(bool counts_network, int threads);

  /// Sets network, busy_fraction and memory fields of `record` for the time since the last call or construction. On a
  /// device, step_ms and the parts must already be set.
  void fill(StepRecord& record, const MemoryLedger& ledger);

 private:
  NetworkCounters network_;
  int threads_;
  Stopwatch watch_;
  double processor_ms_ = 0;
};

/// Sets `process`, what the system says this process holds, and `unaccounted`, the part that no purpose of the ledger
/// accounts for: `bytes` has the purposes, which with `unaccounted` add up to `process`.
void set_process_memory(std::map<std::string, std::int64_t>& bytes, std::int64_t process);

/// SHA-256 of a tensor's bytes in hexadecimal, to compare weights between ranks and runs.
std::string digest_of(Backend& backend, ConstTensor tensor);

}  // namespace babelring
