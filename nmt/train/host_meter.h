#pragma once

#include <string>

#include "base/clock.h"
#include "base/records.h"
#include "nmt/layers/workspace.h"
#include "nmt/metering/network_counters.h"
#include "nmt/model/transformer.h"
#include "nmt/optim/adam.h"

namespace babelring {

/// What a step cost the machine: network bytes of the host's interfaces, processor time, memory by purpose.
class HostMeter {
 public:
  /// One rank of each host counts the network; the others report 0. `threads` of this rank could be busy; 0 where a
  /// device computes, whose busy time is that of the step's parts.
  HostMeter(bool counts_network, int threads);

  /// Fills the fields of `record` for the time since the last call (or construction).
  void fill(StepRecord& record, const Workspace& workspace, const Transformer& model, const Adam& adam);

 private:
  NetworkCounters network_;
  int threads_;
  Stopwatch watch_;
  double processor_ms_ = 0;
};

/// SHA-256 of a tensor's bytes, for comparing weights between ranks and runs.
std::string digest_of(Backend& backend, ConstTensor tensor);

}  // namespace babelring
